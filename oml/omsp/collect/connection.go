package collect

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pillion.dev/internal/quota"
	"pillion.dev/oml/omsp"
)

// Header keys of Pillion's clients.
const (
	sessionKey = "pillion-session"
	tokenKey   = "pillion-token"
	// tokenMark separates the token at the end of the domain, for clients that cannot
	// send additional keys.
	tokenMark = "?token="
)

const (
	defaultDomain = "default"
	batchBytes    = 4 << 20
	storedTimeout = 10 * time.Second
	// loggedFaults is how many unreadable tuples of a connection are logged.
	loggedFaults = 5
	// loggedInvalid is how many connections without a valid header are logged.
	loggedInvalid = 20
	// When the collector stops, it reads a connection for at most drainTime more, and only until nothing
	// arrives for drainIdle.
	drainTime = time.Second
	drainIdle = 50 * time.Millisecond
)

// connection is one client.
type connection struct {
	Connection
	backend Backend
	ctx     context.Context
	o       Options
	conn    net.Conn
	reader  *omsp.Reader
	header  *omsp.Header
	answer  *answerer // nil: a client without acknowledgements
	// start is the start time of the domain, s since 1970; offset is the start time of the client
	// relative to it, s.
	start  int64
	offset float64
	// tables are by the index of the stream; past has the last sequence number of each table, by name,
	// that a stream had before it was redefined.
	tables map[int]*rows
	past   map[string]int64
	// owners maps each table to the index of the first stream of the client that writes to it.
	owners map[string]int
	// under is a semaphore that limits pending batches, which the backend is storing.
	under   chan struct{}
	pending sync.WaitGroup
	settled chan struct{} // closed when no batch is or will be pending
	refused atomic.Uint64
	flushed time.Time
	now     time.Time // updated occasionally
	// received counts bytes; counted is its value at the time rated, and full is the rate, bytes/s,
	// before the client was asked to send less. The lock of the audience guards the last three.
	received atomic.Int64
	counted  int64
	rated    time.Time
	full     int64
	drained  time.Time // when reading must end; zero: not closing
}

// backend returns the backend for connections from a source.
func (all *Collector) backend(source string) Backend {
	if scoped, ok := all.o.Backend.(Scoped); ok {
		return scoped.For(source)
	}
	return all.o.Backend
}

// serve reads a connection until it ends.
func (all *Collector) serve(conn net.Conn, token, source string) {
	c := &connection{
		backend: all.backend(source), ctx: all.ctx, o: all.o, conn: conn, now: time.Now(), settled: make(chan struct{}),
		tables: map[int]*rows{}, past: map[string]int64{}, owners: map[string]int{}, under: make(chan struct{}, all.o.Outstanding),
	}
	c.flushed = c.now
	c.Begun, c.Remote, c.Source = c.now, conn.RemoteAddr().String(), source
	conn.SetReadDeadline(time.Now().Add(c.o.Idle))
	// The data of a client that has just sent everything and closed is still read.
	stop := context.AfterFunc(c.ctx, func() { conn.SetReadDeadline(time.Now().Add(drainIdle)) })
	err := c.run(all, token)
	stop()
	c.flush()
	go func() {
		c.pending.Wait()
		close(c.settled)
	}()
	c.settle()
	if c.answer != nil {
		c.o.audience.leave(c)
		c.answer.close()
		all.leave(c)
	}
	conn.Close()
	if quota.Of(err) != nil {
		c.o.Refused(source, err)
	}
	if c.header == nil {
		// A port scan must not fill the log.
		if !errors.Is(err, io.EOF) && c.ctx.Err() == nil && all.invalid.Add(1) <= loggedInvalid {
			c.o.Log.Warn("refused OML client", "remote", c.Remote, "error", err)
		}
		return
	}
	if !errors.Is(err, io.EOF) {
		c.Reason = err.Error()
	}
	c.Ended, c.Skipped, c.Refused = time.Now(), c.reader.Skipped(), c.refused.Load()
	c.backend.Ended(c.Connection)
}

// settle waits until received tuples are stored: without a limit while the collector runs, and for at
// most Options.Grace after it stops.
func (c *connection) settle() {
	select {
	case <-c.settled:
		return
	case <-c.ctx.Done():
	}
	late := time.NewTimer(c.o.Grace)
	defer late.Stop()
	select {
	case <-c.settled:
	case <-late.C:
		c.o.Log.Error("collector stops before OML tuples are stored", "domain", c.Domain, "sender", c.Sender)
	}
}

func (c *connection) run(all *Collector, token string) error {
	c.reader = omsp.NewReader(waiting{c}, c.o.Limits)
	header, err := c.reader.Header()
	if err != nil {
		return err
	}
	if err := admit(header, token); err != nil {
		return err
	}
	if c.start, err = c.backend.Start(header.Domain, header.Start); err != nil {
		if header.Extra[sessionKey] != "" { // other clients take any received byte for the end of the connection
			conn := c.conn
			conn.SetWriteDeadline(time.Now().Add(answerTimeout))
			_, _ = fmt.Fprintf(conn, "refused %.500s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		}
		return err
	}
	c.offset = float64(header.Start - c.start)
	c.header = header
	c.Domain, c.Sender, c.App = header.Domain, header.Sender, header.App
	if err := c.greet(all); err != nil {
		return err
	}
	return c.readAll()
}

// admit checks the token and determines the domain.
func admit(header *omsp.Header, secret string) error {
	token := header.Extra[tokenKey]
	if name, shown, found := strings.Cut(header.Domain, tokenMark); found {
		header.Domain, token = name, shown
	}
	if header.Domain == "" {
		header.Domain = defaultDomain
	}
	for _, text := range []*string{&header.Domain, &header.Sender, &header.App} {
		*text = strings.ToValidUTF8(*text, "\uFFFD") // the archive accepts only UTF-8
	}
	want, got := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(token))
	if secret != "" && subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
		return errors.New("invalid or missing token: use the key pillion-token, or NAME?token=SECRET as domain")
	}
	return nil
}

// greet sends a client the last stored sequence numbers of its session.
func (c *connection) greet(all *Collector) error {
	text := c.header.Extra[sessionKey]
	if text == "" {
		return nil
	}
	id, err := hex.DecodeString(text)
	if err != nil || len(id) < 8 {
		return fmt.Errorf("read %s %.80q: use 32 hexadecimal digits", sessionKey, text)
	}
	if c.Session = binary.BigEndian.Uint64(id) &^ (1 << 63); c.Session == 0 {
		c.Session = 1
	}
	c.answer = newAnswerer(c.conn)
	c.answer.line("pillion 1")
	if err := all.enter(c); err != nil {
		return err
	}
	indexes := []int{0}
	for i := range c.header.Schemas {
		if index := c.header.Schemas[i].Index; index != 0 {
			indexes = append(indexes, index)
		}
	}
	for _, index := range indexes {
		r, err := c.table(c.reader.SchemaOf(index))
		if err != nil {
			return err
		}
		if r.last > 0 {
			c.answer.stored(index, r.last)
		}
	}
	c.answer.line("go")
	c.o.audience.join(c)
	return nil
}

// table returns the table of a stream, created with its first tuple or when it is
// redefined.
func (c *connection) table(s *omsp.Schema) (*rows, error) {
	before := c.tables[s.Index]
	if before != nil && before.of == s {
		return before, nil
	}
	if before != nil {
		c.store(s.Index, before)
		before.builder.Release()
		c.past[before.Schema.Name] = before.last
		delete(c.tables, s.Index)
	}
	t, err := c.backend.Table(c.Domain, *s)
	if err != nil {
		return nil, err
	}
	r := rowsOf(t, s)
	if c.Session != 0 {
		if err := c.resume(r, s.Index); err != nil {
			return nil, err
		}
	}
	c.tables[s.Index] = r
	return r, nil
}

// resume finds the last stored sequence number of a stream of a session.
func (c *connection) resume(r *rows, index int) (err error) {
	name := r.Schema.Name
	if _, known := c.owners[name]; !known {
		c.owners[name] = index
	}
	r.session = c.Session
	if c.owners[name] != index { // another stream writes to the table, too: sequence numbers are per stream
		r.session = (c.Session ^ uint64(index)*0x9e3779b97f4a7c15) &^ (1 << 63)
	}
	last, known := c.past[name]
	if known && c.owners[name] == index {
		r.last = last
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, storedTimeout)
	defer cancel()
	r.last, err = c.backend.Stored(ctx, r.session, r.Table)
	return err
}

func (c *connection) readAll() error {
	var t omsp.Tuple
	for n := 0; ; n++ {
		if n%64 == 0 {
			c.now = time.Now()
		}
		err := c.reader.Next(&t)
		switch {
		case errors.Is(err, omsp.ErrTuple):
			c.fault(err)
			continue
		case err != nil && c.ctx.Err() != nil:
			return errors.New("the collector is stopping")
		case err != nil:
			return err
		}
		if err := c.take(&t); err != nil {
			return err
		}
	}
}

func (c *connection) fault(err error) {
	if c.Faults++; c.Faults <= loggedFaults {
		c.o.Log.Warn("unreadable OML tuple", "domain", c.Domain, "sender", c.Sender, "error", err)
	}
}

// take adds a tuple to its table.
func (c *connection) take(t *omsp.Tuple) error {
	index := t.Schema.Index
	r := c.tables[index]
	if r == nil || r.of != t.Schema {
		var err error
		if r, err = c.table(t.Schema); err != nil {
			return err
		}
	}
	if c.Session != 0 && t.Seq <= r.last {
		c.Again++
		return nil
	}
	c.number(r, t.Seq)
	if index == 0 && c.reader.Defined(t) != nil { // already applied
		if c.answer != nil && r.under.Load() == 0 && r.count == 0 {
			c.answer.stored(index, t.Seq)
		}
		return nil
	}
	r.add(t, stamp{
		at: timestamp(c.header.Start, t.Time), sender: c.Sender,
		clientTime: t.Time + c.offset, serverTime: float64(c.now.UnixNano()-c.start*1e9) / 1e9,
	})
	c.Tuples++
	if r.count >= c.o.Rows || r.bytes >= batchBytes {
		c.store(index, r)
	}
	return nil
}

// number counts the sequence gap before a tuple. Other clients do not number metadata
// consistently.
func (c *connection) number(r *rows, seq int64) {
	if gap := seq - r.last - 1; gap > 0 && (c.Session != 0 || r.begun && r.of.Index != 0) {
		c.Gaps += uint64(gap)
	}
	r.last, r.begun = seq, true
}

// store passes a batch on and blocks while too many are pending.
func (c *connection) store(index int, r *rows) {
	count := r.count
	record := r.cut()
	if record == nil {
		return
	}
	c.under <- struct{}{}
	c.pending.Add(1)
	r.under.Add(1)
	last := r.last
	c.backend.Store(r.Schema, record, func(err error) {
		r.under.Add(-1)
		if err != nil {
			c.refused.Add(uint64(count))
		} else if c.answer != nil {
			c.answer.stored(index, last)
		}
		<-c.under
		c.pending.Done()
	})
	record.Release()
}

func (c *connection) flush() {
	c.flushed = c.now
	for index, r := range c.tables {
		c.store(index, r)
	}
}

// waiting reads from the connection and, at least every Options.Linger, stores the tuples read so far.
type waiting struct{ c *connection }

// Read implements io.Reader.
func (w waiting) Read(to []byte) (int, error) {
	c := w.c
	if c.header == nil { // the header's deadline applies
		return c.conn.Read(to)
	}
	for {
		if c.now = time.Now(); c.now.Sub(c.flushed) >= c.o.Linger {
			c.flush()
		}
		patience := c.o.Linger
		if c.ctx.Err() != nil {
			if patience = drainIdle; c.drained.IsZero() {
				c.drained = c.now.Add(drainTime)
			}
			if c.now.After(c.drained) {
				return 0, context.Canceled
			}
		}
		c.conn.SetReadDeadline(c.now.Add(patience))
		n, err := c.conn.Read(to)
		c.received.Add(int64(n))
		var timeout net.Error
		if n > 0 || err == nil || !errors.As(err, &timeout) || !timeout.Timeout() {
			return n, err
		}
		if !c.drained.IsZero() {
			return 0, err
		}
	}
}
