package collect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Collector serves clients.
type Collector struct {
	o       Options
	ctx     context.Context
	cancel  context.CancelFunc
	serving sync.WaitGroup
	refused atomic.Uint64
	// strangers are connections without a good header.
	strangers atomic.Uint64

	mu        sync.Mutex
	listeners []net.Listener
	// sessions that are connected: the newest connection of each.
	sessions map[uint64]*connection
}

// New makes a collector that serves nobody yet; Close ends it.
func New(o Options) *Collector {
	o = o.complete()
	o.audience = &audience{members: map[*connection]bool{}}
	c := &Collector{o: o, sessions: map[uint64]*connection{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Serve takes connections of a listener, which it closes, until Close. Clients have to
// show the token; empty: none.
func (c *Collector) Serve(listener net.Listener, token string) error {
	slots := make(chan struct{}, c.o.Connections)
	c.mu.Lock()
	c.listeners = append(c.listeners, listener)
	c.mu.Unlock()
	for {
		conn, err := listener.Accept()
		if c.ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		var temporary interface{ Temporary() bool }
		if errors.As(err, &temporary) && temporary.Temporary() { // out of files, for one
			select {
			case <-time.After(50 * time.Millisecond):
			case <-c.ctx.Done():
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("serve OML on %v: %w", listener.Addr(), err)
		}
		c.begin(conn, token, slots)
	}
}

// begin serves a connection if there is room for one more.
func (c *Collector) begin(conn net.Conn, token string, slots chan struct{}) {
	select {
	case slots <- struct{}{}:
		c.serving.Go(func() {
			defer func() { <-slots }()
			c.serve(conn, token)
		})
	default:
		if c.refused.Add(1) == 1 {
			c.o.Log.Warn("refuse client of OML: too many are connected", "connections", c.o.Connections)
		}
		conn.Close()
	}
}

// Refused counts connections beyond the limit.
func (c *Collector) Refused() uint64 { return c.refused.Load() }

// enter makes a connection that of its session. One of the same session that was
// there before is of a client that has left it; it ends, and what it took is on disk
// before the new one asks what is: else that would be stored twice.
func (c *Collector) enter(n *connection) error {
	c.mu.Lock()
	before := c.sessions[n.Session]
	c.sessions[n.Session] = n
	c.mu.Unlock()
	if before == nil {
		return nil
	}
	before.conn.Close()
	late := time.NewTimer(enterTimeout)
	defer late.Stop()
	select {
	case <-before.settled:
		return nil
	case <-n.ctx.Done():
	case <-late.C:
	}
	return errors.New("what the session sent before is not on disk yet")
}

const enterTimeout = 30 * time.Second

func (c *Collector) leave(n *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions[n.Session] == n {
		delete(c.sessions, n.Session)
	}
}

// Close ends listening and waits until what has come is on disk, but not for ever: a
// Backend may be stuck, and its owner the one who waits here.
func (c *Collector) Close() {
	c.cancel()
	c.mu.Lock()
	for _, listener := range c.listeners {
		listener.Close()
	}
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		c.serving.Wait()
		close(ended)
	}()
	late := time.NewTimer(c.o.Grace + drainTime)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		c.o.Log.Error("connections of OML do not end: what they took last may not be on disk")
	}
}
