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
	slots   chan struct{}
	serving sync.WaitGroup
	refused atomic.Uint64

	mu        sync.Mutex
	listeners []net.Listener
}

// New makes a collector that serves nobody yet; Close ends it.
func New(o Options) *Collector {
	o = o.complete()
	o.audience = &audience{members: map[*connection]bool{}}
	c := &Collector{o: o, slots: make(chan struct{}, o.Connections)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Serve takes connections of a listener, which it closes, until Close.
func (c *Collector) Serve(listener net.Listener) error {
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
		c.begin(conn)
	}
}

// begin serves a connection if there is room for one more.
func (c *Collector) begin(conn net.Conn) {
	select {
	case c.slots <- struct{}{}:
		c.serving.Go(func() {
			defer func() { <-c.slots }()
			serve(c.ctx, conn, c.o)
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

// Close ends listening and waits until what has come is on disk.
func (c *Collector) Close() {
	c.cancel()
	c.mu.Lock()
	for _, listener := range c.listeners {
		listener.Close()
	}
	c.mu.Unlock()
	c.serving.Wait()
}
