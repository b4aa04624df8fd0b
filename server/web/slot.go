package web

import (
	"context"
	"fmt"
	"sync"

	"connectrpc.com/connect"
)

// slots bounds how many costly questions are answered at once, in all and for one
// token, so that whoever asks most leaves some to others.
type slots struct {
	most  int
	mutex sync.Mutex
	used  int
	of    map[string]int // by token
}

func newSlots(most int) *slots { return &slots{most: most, of: map[string]int{}} }

// take is for the caller whom the context names.
func (s *slots) take(ctx context.Context) (release func(), err error) {
	who := callerOf(ctx).token
	s.mutex.Lock()
	defer s.mutex.Unlock()
	share := max(s.most*3/4, 1)
	if s.used >= s.most {
		return nil, connect.NewError(connect.CodeResourceExhausted,
			fmt.Errorf("%d such questions are being answered already; ask again when one has ended", s.used))
	}
	if s.of[who] >= share {
		return nil, connect.NewError(connect.CodeResourceExhausted,
			fmt.Errorf("%d such questions of this token are being answered already; ask again when one has ended", share))
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
