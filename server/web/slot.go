package web

import (
	"context"
	"fmt"
	"sync"

	"connectrpc.com/connect"
)

// slots limits concurrent expensive queries, in total and per token, so that one user
// cannot use all of them. An eighth, at least one if there are several, is reserved for
// operators and administrators.
type slots struct {
	most  int
	mutex sync.Mutex
	used  int
	of    map[string]int // by token
}

func newSlots(most int) *slots { return &slots{most: most, of: map[string]int{}} }

// answerOf runs a question to the archive in a slot of the caller, for at most flowTimeout.
func answerOf[Q, A any](ctx context.Context, s *slots, archive func(context.Context, Q) (A, error), question Q) (answer A, err error) {
	release, err := s.take(ctx)
	if err != nil {
		return answer, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, flowTimeout)
	defer cancel()
	return archive(ctx, question)
}

// take acquires a slot for the caller in the context.
func (s *slots) take(ctx context.Context) (release func(), err error) {
	caller := callerOf(ctx)
	who, most := caller.token, s.most
	if caller.role < operator && most > 1 {
		most -= max(most/8, 1)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	share := max(s.most*3/4, 1)
	if s.used >= most {
		return nil, connect.NewError(connect.CodeResourceExhausted,
			fmt.Errorf("limit of %d concurrent queries reached; retry when one has finished", s.used))
	}
	if s.of[who] >= share {
		return nil, connect.NewError(connect.CodeResourceExhausted,
			fmt.Errorf("limit of %d concurrent queries per token reached; retry when one has finished", share))
	}
	s.used++
	s.of[who]++
	return sync.OnceFunc(func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.used--
		if s.of[who]--; s.of[who] == 0 {
			delete(s.of, who)
		}
	}), nil
}
