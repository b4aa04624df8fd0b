package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/internal/every"
)

// reviewEvery is the interval at which calls in progress are authorised again.
const reviewEvery = time.Second

// call is a call in progress, with a token.
type call struct {
	who   caller
	end   context.CancelCauseFunc
	ended bool
	// writer is nil if another server has passed the call on.
	writer *deadlineWriter
}

type callKey struct{}

// sentBy returns how many bytes of the answer to a call the client has taken.
func sentBy(ctx context.Context) int64 {
	one, _ := ctx.Value(callKey{}).(*call)
	if one == nil || one.writer == nil {
		return 0
	}
	return one.writer.sent.Load()
}

// calls are those in progress. A call ends when its token no longer permits it, whatever it is doing: it was authorised once, and may
// last.
type calls struct {
	mutex sync.Mutex
	open  map[*call]struct{}
}

// begin returns the request with its caller, until finish is called.
func (c *calls) begin(w http.ResponseWriter, r *http.Request, who caller) (_ *http.Request, finish func()) {
	ctx := context.WithValue(r.Context(), callerKey{}, who)
	if who.secret == "" {
		return r.WithContext(ctx), func() {}
	}
	ctx, end := context.WithCancelCause(ctx)
	one := &call{who: who, end: end}
	one.writer, _ = w.(*deadlineWriter)
	ctx = context.WithValue(ctx, callKey{}, one)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.open[one] = struct{}{}
	return r.WithContext(ctx), func() {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		delete(c.open, one)
		end(nil)
	}
}

// review ends the calls that are not permitted any more. One that does not react, since it waits for a client that does not read,
// loses its connection with the next review.
func (c *calls) review(permits func(caller) error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for one := range c.open {
		if one.ended {
			if one.writer != nil {
				one.writer.abort()
			}
		} else if err := permits(one.who); err != nil {
			one.ended = true
			one.end(err)
		}
	}
}

// reviewing authorises the calls in progress again, until the context ends.
func (s *Server) reviewing(ctx context.Context) {
	every.Do(ctx, reviewEvery, func() {
		s.calls.review(s.permits)
		s.ledger.sum(false)
	})
}

// permits returns why a token does not permit any more what it did when a call began.
func (s *Server) permits(began caller) error {
	now, err := s.authenticate(began.secret)
	switch {
	case err != nil:
		return connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("token %s is no longer valid: %w", began.token, err))
	case now.role < began.role:
		return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("token %s no longer has role %v", began.token, began.role))
	case !now.scope.Equal(began.scope):
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the agents in the scope of token %s have changed; reconnect", began.token))
	}
	return nil
}

// outcome is the error of a call: why the server has ended it, if it has.
func outcome(ctx context.Context, err error) error {
	var ended *connect.Error
	if err != nil && errors.As(context.Cause(ctx), &ended) {
		return ended
	}
	return err
}

// endingConn sends nothing after the server has ended the call. A caller with a scope is authorised again before each message, which may
// be about agents that have just left the scope.
type endingConn struct {
	connect.StreamingHandlerConn
	ctx     context.Context
	permits func(caller) error
}

// Send implements connect.StreamingHandlerConn.
func (c endingConn) Send(message any) error {
	err := context.Cause(c.ctx)
	if who := callerOf(c.ctx); err == nil && who.scope != nil {
		err = c.permits(who)
	}
	if err != nil {
		return err
	}
	return c.StreamingHandlerConn.Send(message)
}
