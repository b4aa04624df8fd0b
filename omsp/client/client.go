// Package client reports tuples to a collector of OMSP: ours or OML's.
//
// Inject never waits for the network: tuples go into a bounded queue that a goroutine
// of its own sends. What does not fit is dropped, left out of the numbers and
// reported in-band. A collector of ours says what is on disk; until then tuples are
// kept and sent again on the next connection, and are stored once.
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
	"strconv"
	"sync"
	"time"

	"pillion.dev/omsp"
)

// Options of a Client.
type Options struct {
	// Address of the collector, host:port.
	Address string
	// TLS is for collectors that ask for it; nil: none.
	TLS                 *tls.Config
	Domain, Sender, App string
	// Token for collectors that ask for one.
	Token string
	// Buffer is how much may wait, bytes; default 8 MiB.
	Buffer int
	// Log hears of connections; nil: nobody does.
	Log *slog.Logger
	// Greeting is how long a collector may take to answer; default 2 s. One that
	// does not is taken for one of OML.
	Greeting time.Duration
	// Pause between attempts to connect, at first; default 100 ms.
	Pause time.Duration
}

// ErrValue marks values that do not fit their point, or a point that cannot be.
var ErrValue = errors.New("bad value")

// ErrDropped is a tuple that found no room.
var ErrDropped = errors.New("dropped: the queue is full")

// Client is one run of an application.
type Client struct {
	o       Options
	start   time.Time
	session string
	ctx     context.Context
	cancel  context.CancelFunc
	ended   sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and made anew when what is below changes
	points  []*Point
	begun   bool // a header was sent
	queue   []entry
	bytes   int
	sent    int           // of the queue, on this connection
	stored  map[int]int64 // by stream
	moved   bool          // something was stored since the last attempt to connect
	notes   int64         // number of the last note
	dropped uint64
	thin    uint64 // the collector asks for one of so many samples of each point
}

// entry is an encoded tuple.
type entry struct {
	index int
	seq   int64
	text  []byte
}

// New starts; Close ends it. It connects while the application works.
func New(o Options) (*Client, error) {
	o.Buffer, o.Greeting, o.Pause = cmp.Or(o.Buffer, 8<<20), cmp.Or(o.Greeting, 2*time.Second), cmp.Or(o.Pause, 100*time.Millisecond)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("draw session: %w", err)
	}
	c := &Client{
		o: o, start: time.Now().Truncate(time.Second), session: hex.EncodeToString(id[:]),
		changed: make(chan struct{}), stored: map[int]int64{}, thin: 1,
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.ended.Go(c.run)
	return c, nil
}

// Point is a stream of tuples.
type Point struct {
	client  *Client
	schema  omsp.Schema
	seq     int64
	dropped uint64
	told    uint64 // of the dropped, in-band
	thinned uint64 // one of so many is sent, as was said in-band
	left    uint64 // out, since the last one that was sent
}

// Point begins a stream. Collectors know it as APP_NAME.
func (c *Client) Point(name string, fields ...omsp.Field) (*Point, error) {
	full := name
	if c.o.App != "" {
		full = c.o.App + "_" + name
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := omsp.Schema{Index: len(c.points) + 1, Name: full, Fields: fields}
	if _, err := omsp.ParseSchema(s.String()); err != nil {
		return nil, fmt.Errorf("begin point %s: %w: %w", name, ErrValue, err)
	}
	p := &Point{client: c, schema: s, thinned: 1}
	c.points = append(c.points, p)
	if c.begun {
		c.note(".", "schema", s.String())
	}
	return p, nil
}

// Inject reports values now. It does not wait; an error that is ErrDropped says that
// there was no room. While the collector asks for fewer samples one of so many is
// sent, and metadata says so.
func (p *Point) Inject(values []omsp.Value) error { return p.InjectAt(time.Now(), values) }

// InjectAt reports values of another time.
func (p *Point) InjectAt(at time.Time, values []omsp.Value) error {
	c := p.client
	c.mu.Lock()
	defer c.mu.Unlock()
	t := omsp.Tuple{Schema: &p.schema, Time: at.Sub(c.start).Seconds(), Seq: p.seq + 1, Values: values}
	text, err := omsp.Append(nil, omsp.Text, &t)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrValue, err)
	}
	if p.thins() {
		return nil
	}
	p.seq++ // what is dropped leaves a gap
	if c.bytes+len(text) > c.o.Buffer {
		p.dropped++
		c.dropped++
		return ErrDropped
	}
	if p.told != p.dropped {
		p.told = p.dropped
		c.note("."+p.schema.Name, "dropped", strconv.FormatUint(p.dropped, 10))
	}
	c.add(entry{p.schema.Index, p.seq, text})
	return nil
}

// thins reports whether a sample is left out because the collector asked for fewer:
// it takes no number, so that it does not look lost. The caller holds the lock.
func (p *Point) thins() bool {
	c := p.client
	if p.thinned != c.thin {
		p.thinned, p.left = c.thin, c.thin-1
		c.note("."+p.schema.Name, "thinned", strconv.FormatUint(c.thin, 10))
	}
	if p.left++; p.left < p.thinned {
		return true
	}
	p.left = 0
	return false
}

// Note reports metadata about the application.
func (c *Client) Note(key, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(".", key, value)
}

// note adds a tuple of the metadata, for which there is always room. The caller holds
// the lock.
func (c *Client) note(subject, key, value string) {
	c.notes++
	t := omsp.Tuple{Schema: &omsp.Metadata, Time: time.Since(c.start).Seconds(), Seq: c.notes, Values: make([]omsp.Value, 3)}
	for i, text := range []string{subject, key, value} {
		t.Values[i].SetString(text)
	}
	text, err := omsp.Append(nil, omsp.Text, &t)
	if err == nil { // three strings fit
		c.add(entry{0, c.notes, text})
	}
}

func (c *Client) add(e entry) {
	c.queue = append(c.queue, e)
	c.bytes += len(e.text)
	c.tell()
}

func (c *Client) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Dropped is how many tuples found no room.
func (c *Client) Dropped() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}

// Waiting is how many tuples are not with the collector yet, or not on its disk where
// it says so.
func (c *Client) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}

// Close waits until nothing waits or the context ends, and ends. It reports what was
// dropped last, and how many tuples are lost.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	for _, p := range c.points {
		if p.told != p.dropped {
			p.told = p.dropped
			c.note("."+p.schema.Name, "dropped", strconv.FormatUint(p.dropped, 10))
		}
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
		return fmt.Errorf("close client of OML: %d tuples are not with the collector: %w", left, ctx.Err())
	}
	return nil
}
