package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"pillion.dev/internal/quota"
)

const (
	defaultSourceConnections = 256
	// answeredMax connections beyond a limit are open at a time to be told so, answeredSourceMax of them of one source.
	answeredMax       = 32
	answeredSourceMax = 4
)

// connections accounts for open connections by source address. An eighth is reserved for loopback. When all, or
// all of a source, are in use, a connection that has carried no valid token makes room: of the source that has
// most of them the one that has been silent for longest, if possible without a request in progress. For loopback a
// viewer's or an analyst's makes room, too.
type connections struct {
	most, share int // in total, of a source
	proxy       func(netip.Addr) bool
	exceeded    func(source string, err error)
	refused     atomic.Uint64 // or closed to make room

	mutex            sync.Mutex
	open             map[*connection]bool
	of               map[string]int // by source
	remote, answered int            // of those open: not from loopback, to be refused
}

// connection is an open one.
type connection struct {
	net.Conn
	all      *connections
	source   string
	loopback bool
	// refusal is the answer to all requests, or nil.
	refusal error
	heard   atomic.Int64 // when bytes last arrived, in Unix nanoseconds
	role    atomic.Int32 // the highest one of a token that it has carried
	busy    atomic.Int32 // requests in progress
}

// admit accounts for a connection. Without room it is closed, and nil, or only there to be refused.
func (c *connections) admit(conn net.Conn) *connection {
	remote, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	one := &connection{Conn: conn, all: c, source: quota.Source(remote.Addr()), loopback: remote.Addr().Unmap().IsLoopback()}
	one.heard.Store(time.Now().UnixNano())
	c.mutex.Lock()
	full := c.full(one, c.proxy(remote.Addr().Unmap()))
	victim, of := one, c.of[one.source]
	if full != nil {
		if victim = c.quietest(one, full); victim != nil {
			of = c.of[victim.source]
			c.remove(victim)
		} else {
			victim, one.refusal = one, c.error(of)
		}
	}
	admitted := one.refusal == nil || c.answered < answeredMax && of < c.share+answeredSourceMax
	if admitted {
		c.open[one] = true
		c.count(one, 1)
	}
	c.mutex.Unlock()
	if full == nil {
		return one
	}
	c.refused.Add(1)
	c.exceeded("address "+victim.source, c.error(of))
	if one.refusal == nil {
		victim.Conn.Close()
		return one
	}
	if !admitted {
		conn.Close()
		return nil
	}
	time.AfterFunc(headerTimeout, func() { one.Close() })
	return one
}

// full returns nil if there is room for another connection, otherwise which ones can make room.
func (c *connections) full(next *connection, proxy bool) func(*connection) bool {
	switch {
	case !proxy && c.of[next.source] >= c.share:
		return func(o *connection) bool { return o.source == next.source }
	case len(c.open) >= c.most || !next.loopback && c.remote >= c.most-c.most/8:
		return func(o *connection) bool { return next.loopback || !o.loopback }
	}
	return nil
}

// quietest returns which of the connections that can make room does, or nil.
func (c *connections) quietest(next *connection, can func(*connection) bool) (found *connection) {
	most := anyone
	if next.loopback {
		most = analyst
	}
	order := func(a, b *connection) int {
		return cmp.Or(cmp.Compare(a.role.Load(), b.role.Load()), cmp.Compare(c.of[b.source], c.of[a.source]),
			cmp.Compare(min(a.busy.Load(), 1), min(b.busy.Load(), 1)), cmp.Compare(a.heard.Load(), b.heard.Load()))
	}
	for one := range c.open {
		if one.refusal == nil && role(one.role.Load()) <= most && can(one) && (found == nil || order(one, found) < 0) {
			found = one
		}
	}
	return found
}

// remove and count are called with the mutex.
func (c *connections) remove(one *connection) {
	if c.open[one] {
		delete(c.open, one)
		c.count(one, -1)
	}
}

func (c *connections) count(one *connection, n int) {
	if c.of[one.source] += n; c.of[one.source] == 0 {
		delete(c.of, one.source)
	}
	if !one.loopback {
		c.remote += n
	}
	if one.refusal != nil {
		c.answered += n
	}
}

func (c *connections) error(of int) error {
	return &quota.Error{
		Quota: "connections", Limit: int64(c.share), Unit: "connections to the API for each source address", Later: true,
		What: fmt.Sprintf("keep another connection beside %d of this address, and %d in all", of, c.most),
	}
}

type connectionKey struct{}

// withConnection is for http.Server.ConnContext.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	if peeked, ok := conn.(*peekedConn); ok {
		return context.WithValue(ctx, connectionKey{}, peeked.connection)
	}
	return ctx
}

// connectionOf returns the connection of a request; nil if another server has passed it on.
func connectionOf(ctx context.Context) *connection {
	one, _ := ctx.Value(connectionKey{}).(*connection)
	return one
}

// authenticated notes that a request with a valid token has arrived.
func (c *connection) authenticated(as role) {
	if c != nil && int32(as) > c.role.Load() {
		c.role.Store(int32(as))
	}
}

// Read notes when bytes arrive.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

// Write has its own deadline at the lowest level: a client that does not read loses the
// connection.
func (c *connection) Write(b []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(writeTimeout))
	return c.Conn.Write(b)
}

// Close frees its place.
func (c *connection) Close() error {
	c.all.mutex.Lock()
	c.all.remove(c)
	c.all.mutex.Unlock()
	return c.Conn.Close()
}
