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
	// invalid counts connections without a valid header.
	invalid atomic.Uint64

	mu        sync.Mutex
	listeners []net.Listener
	// sessions that are connected: the newest connection of each.
	sessions map[sessionOf]*connection
	sources  map[string]int // open connections
}

// sessionOf identifies a session: one source cannot take over another's session.
type sessionOf struct {
	source  string
	session uint64
}

func (c *connection) key() sessionOf { return sessionOf{c.Source, c.Session} }

// New returns a collector that does not serve yet; Close stops it.
func New(o Options) *Collector {
	o = o.complete()
	o.audience = &audience{members: map[*connection]bool{}}
	c := &Collector{o: o, sessions: map[sessionOf]*connection{}, sources: map[string]int{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Serve accepts connections of a listener, which it closes, until Close. Clients must
// present the token, unless it is empty.
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
		if errors.As(err, &temporary) && temporary.Temporary() { // such as too many open files
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

// begin serves a connection, up to the limit.
func (c *Collector) begin(conn net.Conn, token string, slots chan struct{}) {
	source := SourceOf(conn)
	if !c.enterSource(source) {
		c.o.Refused(source, c.sourceError())
		conn.Close()
		return
	}
	select {
	case slots <- struct{}{}:
		leave := func() { <-slots; c.leaveSource(source) }
		c.mu.Lock() // Close waits only for what began before it
		open := c.ctx.Err() == nil
		if open {
			c.serving.Go(func() {
				defer leave()
				c.serve(conn, token, source)
			})
		}
		c.mu.Unlock()
		if !open {
			leave()
			conn.Close()
		}
	default:
		c.leaveSource(source)
		if c.refused.Add(1) == 1 {
			c.o.Log.Warn("refused OML client: too many connections", "connections", c.o.Connections)
		}
		conn.Close()
	}
}

// enter registers the connection of a session. An older connection of the same session
// is stale: it is closed, and its tuples are stored before the new one asks for the
// last stored sequence number, otherwise they would be stored twice.
func (c *Collector) enter(n *connection) error {
	c.mu.Lock()
	before := c.sessions[n.key()]
	c.sessions[n.key()] = n
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
	return errors.New("earlier tuples of the session are not stored yet")
}

const enterTimeout = 30 * time.Second

func (c *Collector) leave(n *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions[n.key()] == n {
		delete(c.sessions, n.key())
	}
}

// Close stops listening and waits until received tuples are stored, up to Grace: a
// Backend may be blocked by the caller.
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
		c.o.Log.Error("OML connections do not end: their last tuples may be lost")
	}
}
