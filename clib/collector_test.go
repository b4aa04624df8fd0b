package clib

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pillion.dev/oml/omsp"
)

// tuple is a received tuple.
type tuple struct {
	table  string
	seq    int64
	values []omsp.Value
}

// note is a metadata tuple.
type note struct{ subject, key, value string }

// collector is a server for tests. It stores in batches; like a real one, it loses what is
// not stored when it is killed.
type collector struct {
	t       *testing.T
	address string
	// answers: it acknowledges stored tuples, as Pillion's does.
	answers bool
	batch   int

	lock     sync.Mutex
	changed  *sync.Cond
	listener net.Listener
	conns    map[net.Conn]bool
	headers  []*omsp.Header
	stored   []tuple
	last     map[string]int64 // stored seq, by session and stream
	notes    []note
	again    int // duplicate tuples
	faults   []error
	skipped  uint64
	deaf     bool // does not read
}

func newCollector(t *testing.T, answers bool, batch int) *collector {
	t.Helper()
	c := &collector{t: t, address: "127.0.0.1:0", answers: answers, batch: batch, conns: map[net.Conn]bool{}, last: map[string]int64{}}
	c.changed = sync.NewCond(&c.lock)
	c.start()
	t.Cleanup(c.kill)
	return c
}

// start listens; after kill, on the same port.
func (c *collector) start() {
	c.t.Helper()
	l, err := net.Listen("tcp", c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	c.address, c.listener = l.Addr().String(), l
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.lock.Lock()
			c.conns[conn] = true
			c.lock.Unlock()
			go c.serve(conn)
		}
	}()
}

func (c *collector) kill() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.listener.Close()
	for conn := range c.conns {
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
	clear(c.conns)
}

// until waits for a condition, which it calls with the lock held.
func (c *collector) until(what string, condition func() bool) {
	c.t.Helper()
	expired := make(chan struct{})
	stop := afterLong(func() {
		close(expired)
		c.changed.Broadcast()
	})
	defer stop()
	c.lock.Lock()
	defer c.lock.Unlock()
	for !condition() {
		select {
		case <-expired:
			c.t.Fatalf("timed out waiting for %s: %d tuples are stored, faults %v", what, len(c.stored), c.faults)
		default:
			c.changed.Wait()
		}
	}
}

func (c *collector) serve(conn net.Conn) {
	r := omsp.NewReader(conn, omsp.Limits{})
	h, err := r.Header()
	if err != nil {
		return
	}
	s := &service{c: c, conn: conn, session: h.Extra["pillion-session"]}
	c.lock.Lock()
	c.headers = append(c.headers, h)
	if c.answers && s.session != "" {
		fmt.Fprintf(conn, "pillion 1\n")
		for _, schema := range h.Schemas {
			if seq := c.last[s.key(schema.Index)]; seq > 0 {
				fmt.Fprintf(conn, "stored %d %d\n", schema.Index, seq)
			}
		}
		fmt.Fprintf(conn, "go\n")
	}
	c.changed.Broadcast()
	for c.deaf && c.conns[conn] {
		c.changed.Wait()
	}
	c.lock.Unlock()
	for {
		var t omsp.Tuple
		err := r.Next(&t)
		if err != nil && !errors.Is(err, omsp.ErrTuple) {
			s.end(r, err)
			return
		}
		s.take(r, &t, err)
	}
}

// service is one connection.
type service struct {
	c       *collector
	conn    net.Conn
	session string
	pending []tuple
	indexes []int
}

func (s *service) key(index int) string { return s.session + " " + strconv.Itoa(index) }

func (s *service) take(r *omsp.Reader, t *omsp.Tuple, err error) {
	s.c.lock.Lock()
	defer s.c.lock.Unlock()
	switch {
	case !s.c.conns[s.conn]: // killed: it may be cut anywhere
	case err != nil:
		s.c.faults = append(s.c.faults, err)
	case t.Schema.Index == 0:
		if s.c.answers {
			fmt.Fprintf(s.conn, "stored 0 %d\n", t.Seq)
		}
		s.c.notes = append(s.c.notes, note{string(t.Values[0].Bytes()), string(t.Values[1].Bytes()), string(t.Values[2].Bytes())})
		s.c.changed.Broadcast()
	default:
		// Its memory belongs to the reader: copy it.
		values := make([]omsp.Value, len(t.Values))
		for i := range t.Values {
			v := &t.Values[i]
			switch {
			case v.Type.IsVector():
				values[i].SetElements(v.Type, v.Elements())
			case v.Type == omsp.String:
				values[i].SetString(string(v.Bytes()))
			case v.Type == omsp.Blob:
				values[i].SetBlob(v.Bytes())
			default:
				values[i] = *v
			}
		}
		s.pending = append(s.pending, tuple{t.Schema.Name, t.Seq, values})
		s.indexes = append(s.indexes, t.Schema.Index)
	}
	if len(s.pending) >= s.c.batch || r.Idle() {
		s.store()
	}
}

// store is called with the lock.
func (s *service) store() {
	if !s.c.conns[s.conn] { // killed: nothing more is stored
		s.pending, s.indexes = nil, nil
		return
	}
	acknowledged := map[int]int64{}
	for i, t := range s.pending {
		key := s.key(s.indexes[i])
		if s.c.answers && t.seq <= s.c.last[key] {
			s.c.again++
			continue
		}
		s.c.last[key] = t.seq
		s.c.stored = append(s.c.stored, t)
		acknowledged[s.indexes[i]] = t.seq
	}
	s.pending, s.indexes = nil, nil
	if s.c.answers && s.session != "" {
		for index, seq := range acknowledged {
			fmt.Fprintf(s.conn, "stored %d %d\n", index, seq)
		}
	}
	s.c.changed.Broadcast()
}

func (s *service) end(r *omsp.Reader, err error) {
	s.c.lock.Lock()
	defer s.c.lock.Unlock()
	s.store()
	if s.c.conns[s.conn] {
		s.c.skipped += r.Skipped()
	}
	if errors.Is(err, io.EOF) && s.c.conns[s.conn] {
		delete(s.c.conns, s.conn)
		s.conn.Close()
	}
	s.c.changed.Broadcast()
}

// of returns the tuples of a table; the caller holds the lock.
func (c *collector) of(table string) []tuple {
	var all []tuple
	for _, t := range c.stored {
		if t.table == table {
			all = append(all, t)
		}
	}
	return all
}

// numbers checks that the samples 0 to n-1 were stored once each, and that their seq have
// neither gaps nor duplicates.
func (c *collector) numbers(n int64) {
	c.t.Helper()
	c.lock.Lock()
	defer c.lock.Unlock()
	seen, seqs := map[int64]int{}, map[int64]int{}
	for _, t := range c.of("client_load") {
		seen[t.values[0].Int()]++
		seqs[t.seq]++
		if x := t.values[1].Double(); x != float64(t.values[0].Int())/10 {
			c.t.Errorf("sample %d has x %v", t.values[0].Int(), x)
		}
	}
	var wrong []string
	for i := range n {
		if seen[i] != 1 || seqs[i+1] != 1 {
			wrong = append(wrong, fmt.Sprintf("%d: %d times, seq %d times", i, seen[i], seqs[i+1]))
		}
	}
	if len(wrong) > 0 || int64(len(seen)) != n || int64(len(seqs)) != n {
		c.t.Errorf("%d samples, %d seq, want %d; wrong: %s", len(seen), len(seqs), n, strings.Join(wrong[:min(len(wrong), 5)], ", "))
	}
	if len(c.faults) > 0 || c.skipped > 0 {
		c.t.Errorf("faults %v, %d bytes skipped", c.faults, c.skipped)
	}
}
