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
	"time"

	"pillion.dev/omsp"
)

// Keys of headers that only our clients send.
const (
	sessionKey = "pillion-session"
	tokenKey   = "pillion-token"
	// tokenMark is where a client that cannot send keys of its own puts the token: at
	// the end of the domain.
	tokenMark = "?token="
)

const (
	defaultDomain = "default"
	batchBytes    = 4 << 20
	storedTimeout = 10 * time.Second
	// noFaults is how many faulty tuples of a connection are logged.
	loggedFaults = 5
)

// connection is one client.
type connection struct {
	Connection
	ctx    context.Context
	o      Options
	conn   net.Conn
	reader *omsp.Reader
	header *omsp.Header
	answer *answerer // nil: a client that wants none
	// offset is the client's start on the domain's time base, s; start the domain's.
	start  int64
	offset float64
	tables map[*omsp.Schema]*rows
	// under bounds the batches that are not on disk yet.
	under   chan struct{}
	pending sync.WaitGroup
	flushed time.Time
	now     time.Time // not exact: looked at now and then
}

// serve reads one connection to its end.
func serve(ctx context.Context, conn net.Conn, o Options) {
	c := &connection{ctx: ctx, o: o, conn: conn, tables: map[*omsp.Schema]*rows{}, under: make(chan struct{}, o.Outstanding), now: time.Now()}
	c.Begun, c.Remote = c.now, conn.RemoteAddr().String()
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Now()) })
	err := c.run()
	stop()
	c.flush()
	c.pending.Wait() // what came is kept, also when the collector ends
	if c.answer != nil {
		c.o.audience.leave(c)
		c.answer.close()
	}
	conn.Close()
	if c.header == nil {
		if !errors.Is(err, io.EOF) {
			o.Log.Warn("refuse client of OML", "remote", c.Remote, "error", err)
		}
		return
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.Reason = err.Error()
	}
	c.Ended, c.Skipped = time.Now(), c.reader.Skipped()
	o.Keeper.Ended(c.Connection)
}

func (c *connection) run() error {
	c.conn.SetReadDeadline(time.Now().Add(c.o.Idle))
	c.reader = omsp.NewReader(waiting{c}, c.o.Limits)
	header, err := c.reader.Header()
	if err != nil {
		return err
	}
	if err := c.admit(header); err != nil {
		return err
	}
	if c.start, err = c.o.Keeper.Start(header.Domain, header.Start); err != nil {
		return err
	}
	c.offset = float64(header.Start - c.start)
	c.header = header
	c.Domain, c.Sender, c.App = header.Domain, header.Sender, header.App
	if err := c.greet(); err != nil {
		return err
	}
	return c.readAll()
}

// admit checks the token and names the domain.
func (c *connection) admit(header *omsp.Header) error {
	token := header.Extra[tokenKey]
	if name, secret, found := strings.Cut(header.Domain, tokenMark); found {
		header.Domain, token = name, secret
	}
	if header.Domain == "" {
		header.Domain = defaultDomain
	}
	want, got := sha256.Sum256([]byte(c.o.Token)), sha256.Sum256([]byte(token))
	if c.o.Token != "" && subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
		return errors.New("the token is wrong or missing: use the key pillion-token, or NAME?token=SECRET as domain")
	}
	return nil
}

// greet tells a client of ours what is on disk of its session.
func (c *connection) greet() error {
	text := c.header.Extra[sessionKey]
	if text == "" {
		return nil
	}
	id, err := hex.DecodeString(text)
	if err != nil || len(id) < 8 {
		return fmt.Errorf("read %s %q: use 32 hexadecimal digits", sessionKey, text)
	}
	if c.Session = binary.BigEndian.Uint64(id) &^ (1 << 63); c.Session == 0 {
		c.Session = 1
	}
	c.answer = newAnswerer(c.conn)
	c.answer.line("pillion 1")
	for i := range c.header.Schemas {
		s := &c.header.Schemas[i]
		if s.Index == 0 {
			continue
		}
		r, err := c.table(c.reader.SchemaOf(s.Index))
		if err != nil {
			return err
		}
		if r.kept > 0 {
			c.answer.stored(s.Index, r.kept)
		}
	}
	c.answer.line("go")
	c.o.audience.join(c)
	return nil
}

// table is that of a stream, which is made when its first tuple comes.
func (c *connection) table(s *omsp.Schema) (*rows, error) {
	if r := c.tables[s]; r != nil {
		return r, nil
	}
	t, err := c.o.Keeper.Table(c.Domain, *s)
	if err != nil {
		return nil, err
	}
	last := int64(0)
	if c.Session != 0 {
		ctx, cancel := context.WithTimeout(c.ctx, storedTimeout)
		defer cancel()
		if last, err = c.o.Keeper.Stored(ctx, c.Session, t); err != nil {
			return nil, err
		}
	}
	r := rowsOf(t, s, last)
	c.tables[s] = r
	return r, nil
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
			return errors.New("the collector ends")
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
		c.o.Log.Warn("read tuple of OML", "domain", c.Domain, "sender", c.Sender, "error", err)
	}
}

// take puts a tuple into its table.
func (c *connection) take(t *omsp.Tuple) error {
	if t.Schema.Index == 0 {
		if c.reader.Defined(t) == nil {
			c.o.Keeper.Note(Note{
				Time: time.Unix(0, int64(timestamp(c.header.Start, t.Time))), Domain: c.Domain, Sender: c.Sender,
				Subject: string(t.Values[0].Bytes()), Key: string(t.Values[1].Bytes()), Value: string(t.Values[2].Bytes()),
			})
		}
		if c.answer != nil {
			c.answer.stored(0, t.Seq)
		}
		return nil
	}
	r := c.tables[t.Schema]
	if r == nil {
		var err error
		if r, err = c.table(t.Schema); err != nil {
			return err
		}
	}
	if c.Session != 0 && t.Seq <= r.last {
		c.Again++
		return nil
	}
	if gap := t.Seq - r.last - 1; gap > 0 && r.last > 0 {
		c.Gaps += uint64(gap)
	}
	r.add(t, stamp{
		at: timestamp(c.header.Start, t.Time), sender: c.Sender, session: c.Session,
		clientTime: t.Time + c.offset, serverTime: float64(c.now.UnixNano()-c.start*1e9) / 1e9,
	})
	c.Tuples++
	if r.count >= c.o.Rows || r.bytes >= batchBytes {
		c.store(t.Schema.Index, r)
	}
	return nil
}

// store hands a batch on and waits while too many are under way.
func (c *connection) store(index int, r *rows) {
	record := r.cut()
	if record == nil {
		return
	}
	c.under <- struct{}{}
	c.pending.Add(1)
	last := r.last
	c.o.Keeper.Store(r.Schema, record, func(err error) {
		if err == nil && c.answer != nil {
			c.answer.stored(index, last)
		}
		<-c.under
		c.pending.Done()
	})
	record.Release()
}

func (c *connection) flush() {
	c.flushed = c.now
	for s, r := range c.tables {
		c.store(s.Index, r)
	}
}

// waiting reads from the connection, and hands on what is there when nothing more
// comes for a while.
type waiting struct{ c *connection }

// Read implements io.Reader.
func (w waiting) Read(to []byte) (int, error) {
	c := w.c
	if c.header == nil { // the deadline is that of the header
		return c.conn.Read(to)
	}
	for {
		if c.now = time.Now(); c.now.Sub(c.flushed) >= c.o.Linger {
			c.flush()
		}
		c.conn.SetReadDeadline(c.now.Add(c.o.Linger))
		n, err := c.conn.Read(to)
		var timeout net.Error
		if n > 0 || err == nil || !errors.As(err, &timeout) || !timeout.Timeout() {
			return n, err
		}
		if c.ctx.Err() != nil {
			return 0, err
		}
	}
}
