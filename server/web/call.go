package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/internal/every"
)

const (
	// reviewEvery is the interval at which calls in progress are authorised again.
	reviewEvery = time.Second
	// A client that has to be waited for takes leastRate bytes a second, measured over slowSpan.
	leastRate = 16 << 10
	slowSpan  = 30 * time.Second
	// downloadTime limits a call, streamTime one that has no end.
	downloadTime = 2 * time.Hour
	streamTime   = 24 * time.Hour
)

// streams are the procedures whose answers have no end.
var streams = map[string]bool{
	pillionv1connect.DataServiceTailProcedure: true, pillionv1connect.FlowServiceWatchPairsProcedure: true, pillionv1connect.FlowServiceWatchWindowsProcedure: true,
}

// call is a call in progress.
type call struct {
	who   caller
	path  string
	end   context.CancelCauseFunc
	ended bool
	began time.Time
	// Progress at the last measurement of the rate.
	measured time.Time
	sent     int64
	waited   time.Duration
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
// last. It ends, too, when its client is too slow or it has lasted for too long.
type calls struct {
	slowSpan time.Duration
	mutex    sync.Mutex
	open     map[*call]struct{}
}

// begin returns the request with its caller, until finish is called.
func (c *calls) begin(w http.ResponseWriter, r *http.Request, who caller) (_ *http.Request, finish func()) {
	ctx := context.WithValue(r.Context(), callerKey{}, who)
	ctx, end := context.WithCancelCause(ctx)
	now := time.Now()
	one := &call{who: who, path: r.URL.Path, end: end, began: now, measured: now}
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

// review ends the calls that are not permitted any more, or are overdue. One that does not react, since it waits for a client that does not read,
// loses its connection with the next review.
func (c *calls) review(now time.Time, permits func(caller) error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for one := range c.open {
		if one.ended {
			if one.writer != nil {
				one.writer.abort()
			}
		} else if err := cmp.Or(permits(one.who), one.overdue(now, c.slowSpan)); err != nil {
			one.ended = true
			one.end(err)
		}
	}
}

// overdue returns why a call ends: its client takes fewer bytes than leastRate, or it has lasted for too long.
func (c *call) overdue(now time.Time, span time.Duration) error {
	limit, hint := downloadTime, "ask for a shorter time range"
	if streams[c.path] {
		limit, hint = streamTime, "reconnect"
	}
	if now.Sub(c.began) > limit {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the call has lasted for %v, which is the limit; %s", limit, hint))
	}
	if c.writer == nil || now.Sub(c.measured) < span {
		return nil
	}
	sent, waited := c.writer.progress(now)
	slow := isSlow(sent-c.sent, waited-c.waited, span)
	c.measured, c.sent, c.waited = now, sent, waited
	if slow {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the client takes fewer than %d bytes per second, over %v", leastRate, span))
	}
	return nil
}

// isSlow reports whether a client that was waited for, for half of the span or longer, took too few bytes meanwhile.
func isSlow(sent int64, waited, span time.Duration) bool {
	return waited >= span/2 && float64(sent) < leastRate*waited.Seconds()
}

// reviewing authorises the calls in progress again, until the context ends.
func (s *Server) reviewing(ctx context.Context) {
	every.Do(ctx, reviewEvery, func() {
		s.calls.review(time.Now(), s.permits)
		s.ledger.sum(false)
	})
}

// permits returns why a token does not permit any more what it did when a call began.
func (s *Server) permits(began caller) error {
	if began.secret == "" {
		return nil
	}
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
