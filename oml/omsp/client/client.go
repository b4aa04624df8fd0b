// Package client sends tuples to an OMSP collector: Pillion's or OML's.
//
// Inject never waits for the network: a goroutine sends tuples from a bounded queue. A
// tuple that does not fit is dropped, leaves a gap in the sequence numbers, and is
// reported in-band. A Pillion collector acknowledges tuples on disk; the client keeps
// and retransmits the others, and each is stored exactly once.
package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"pillion.dev/oml/omsp"
)

// Options of a Client.
type Options struct {
	// Address of the collector, host:port.
	Address string
	// TLS is for collectors that require it; nil: none.
	TLS                 *tls.Config
	Domain, Sender, App string
	// Token for collectors that require one.
	Token string
	// Buffer is the size of the queue, bytes; default 8 MiB.
	Buffer int
	// Log of connections; nil: none.
	Log *slog.Logger
	// Greeting is the timeout for a collector's greeting; default 2 s. One that sends
	// none is assumed to be OML's.
	Greeting time.Duration
	// Pause is the initial delay between attempts to connect; default 100 ms.
	Pause time.Duration
	// Session identifies, by NewSession, a run of the application that injects the same
	// tuples again as an earlier one, in the same order: a Pillion collector stores only the tuples
	// that it does not have. All points are to be made before the first tuple. By default each
	// client has a session of its own.
	Session string
	// Complete keeps samples from being left out or aggregated when the collector requests
	// fewer: it can only request a lower rate.
	Complete bool
}

// ErrValue marks values that do not match their point, or an invalid point.
var ErrValue = errors.New("invalid value")

// ErrDropped is a tuple dropped because the queue was full.
var ErrDropped = errors.New("dropped: the queue is full")

// Client is one run of an application.
type Client struct {
	o       Options
	start   time.Time
	session string
	ctx     context.Context
	cancel  context.CancelFunc
	began   sync.Once
	ended   sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when the fields below change
	points  []*Point
	begun   bool // a header was sent
	queue   []entry
	bytes   int
	sent    int           // of the queue, on this connection
	stored  map[int]int64 // by stream
	moved   bool          // something was stored since the last attempt to connect
	notes   int64         // number of the last note
	dropped uint64
	thin    uint64 // the collector requests one in thin samples
	// rate is the highest that the collector requests, bytes/s, or 0; every is the window
	// of the aggregates that it requests, or 0.
	rate    int64
	closing bool
	every   time.Duration
}

// entry is an encoded tuple.
type entry struct {
	index int
	seq   int64
	text  []byte
}

// New starts a client, which connects in the background; Close stops it.
func New(o Options) (*Client, error) {
	o.Buffer, o.Greeting, o.Pause = cmp.Or(o.Buffer, 8<<20), cmp.Or(o.Greeting, 2*time.Second), cmp.Or(o.Pause, 100*time.Millisecond)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	repeated := o.Session != ""
	if !repeated {
		var err error
		if o.Session, err = NewSession(); err != nil {
			return nil, err
		}
	}
	c := &Client{
		o: o, start: time.Now().Truncate(time.Second), session: o.Session,
		changed: make(chan struct{}), stored: map[int]int64{}, thin: 1,
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if !repeated {
		c.begin()
	}
	return c, nil
}

// begin starts to connect, once. In a session of an earlier run it is put off until the first
// tuple: a point that is declared in the header is known to the collector, but one declared
// later is a tuple, which counts as stored before.
func (c *Client) begin() { c.began.Do(func() { c.ended.Go(c.run) }) }

// NewSession draws the name of a session.
func NewSession() (string, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", fmt.Errorf("draw session: %w", err)
	}
	return hex.EncodeToString(id[:]), nil
}

// Point is a stream of tuples.
type Point struct {
	client   *Client
	schema   omsp.Schema
	seq      int64
	dropped  uint64
	reported uint64 // dropped tuples reported in-band
	thinned  uint64 // one in thinned is sent, as reported in-band
	skipped  uint64 // samples left out since the last one sent
	// window has the aggregates that take the place of samples, or nil; every is its
	// length as reported in-band.
	window *window
	every  time.Duration
}

// Point creates a stream. Collectors call it APP_NAME.
func (c *Client) Point(name string, fields ...omsp.Field) (*Point, error) {
	full := name
	if c.o.App != "" {
		full = c.o.App + "_" + name
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.point(full, fields)
}

// point creates a stream. The caller holds the lock.
func (c *Client) point(name string, fields []omsp.Field) (*Point, error) {
	s := omsp.Schema{Index: len(c.points) + 1, Name: name, Fields: fields}
	if _, err := omsp.ParseSchema(s.String()); err != nil {
		return nil, fmt.Errorf("create point %s: %w: %w", name, ErrValue, err)
	}
	p := &Point{client: c, schema: s, thinned: 1}
	c.points = append(c.points, p)
	if c.begun {
		c.note(".", "schema", s.String())
	}
	return p, nil
}

// Inject sends values with the current time. It does not block; it returns ErrDropped if
// the queue is full. While the collector requests fewer samples, one in N or aggregates are
// sent, and metadata reports that.
func (p *Point) Inject(values []omsp.Value) error { return p.InjectAt(time.Now(), values) }

// InjectAt sends values with a given time.
func (p *Point) InjectAt(at time.Time, values []omsp.Value) error {
	c := p.client
	c.mu.Lock()
	defer c.mu.Unlock()
	t := omsp.Tuple{Schema: &p.schema, Time: at.Sub(c.start).Seconds(), Seq: p.seq + 1, Values: values}
	text, err := omsp.Append(nil, omsp.Text, &t)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrValue, err)
	}
	if p.aggregates(at, values) || p.thins() {
		return nil
	}
	return p.put(text)
}

// Skip passes over the next n tuples, which the collector has stored in this session.
func (p *Point) Skip(n int) {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	p.seq += int64(n)
}

// put queues an encoded tuple. The caller holds the lock.
func (p *Point) put(text []byte) error {
	c := p.client
	p.seq++ // a dropped tuple leaves a gap
	if c.bytes+len(text) > c.o.Buffer {
		p.dropped++
		c.dropped++
		return ErrDropped
	}
	p.reportDropped()
	c.add(entry{p.schema.Index, p.seq, text})
	c.begin()
	if p.seq <= c.stored[p.schema.Index] {
		c.releaseStored() // of an earlier run's session: nothing will acknowledge them once more
	}
	return nil
}

// Progress returns the sequence numbers of the last tuple that was injected and not left
// out, and of the last one up to which the collector has acknowledged all as stored.
func (p *Point) Progress() (sent, stored int64) {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	return p.seq, p.client.stored[p.schema.Index]
}

// reportDropped adds metadata if more tuples have been dropped since the last report. The
// caller holds the lock.
func (p *Point) reportDropped() {
	if p.reported != p.dropped {
		p.reported = p.dropped
		p.client.note("."+p.schema.Name, "dropped", strconv.FormatUint(p.dropped, 10))
	}
}

// thins reports whether a sample is skipped because the collector requested fewer: it
// gets no sequence number, so that it does not count as lost. The caller holds the lock.
func (p *Point) thins() bool {
	c := p.client
	if p.thinned != c.thin {
		p.thinned, p.skipped = c.thin, c.thin-1
		c.note("."+p.schema.Name, "thinned", strconv.FormatUint(c.thin, 10))
	}
	if p.skipped++; p.skipped < p.thinned {
		return true
	}
	p.skipped = 0
	return false
}

// Note sends metadata about the application.
func (c *Client) Note(key, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(".", key, value)
}

// note adds a metadata tuple, regardless of the limit. The caller holds the lock.
func (c *Client) note(subject, key, value string) {
	c.notes++
	t := omsp.Tuple{Schema: &omsp.Metadata, Time: time.Since(c.start).Seconds(), Seq: c.notes, Values: make([]omsp.Value, 3)}
	for i, text := range []string{subject, key, value} {
		t.Values[i].SetString(text)
	}
	text, err := omsp.Append(nil, omsp.Text, &t)
	if err == nil { // three strings always match
		c.add(entry{0, c.notes, text})
	}
}

func (c *Client) add(e entry) {
	c.queue = append(c.queue, e)
	c.bytes += len(e.text)
	c.wake()
}

func (c *Client) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Dropped returns the number of dropped tuples.
func (c *Client) Dropped() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}

// Waiting returns the number of tuples not yet sent or, if the collector acknowledges,
// not yet acknowledged.
func (c *Client) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// Close waits until the queue is empty or the context ends, then disconnects. It reports
// the last dropped tuples, and returns how many are lost as an error.
func (c *Client) Close(ctx context.Context) error {
	c.begin()
	c.mu.Lock()
	c.closing = true
	for _, p := range slices.Clone(c.points) {
		if p.window != nil {
			p.window.end()
		}
		p.reportDropped()
	}
	for len(c.queue) > 0 && ctx.Err() == nil {
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		c.mu.Lock()
	}
	left := len(c.queue)
	c.mu.Unlock()
	c.cancel()
	c.ended.Wait()
	if left > 0 {
		return fmt.Errorf("close OML client: %d tuples have not reached the collector: %w", left, ctx.Err())
	}
	return nil
}
