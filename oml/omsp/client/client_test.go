package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/collect"
)

const patience = hang.Limit

// shelf is a Backend in memory, of one table at a time.
type shelf struct {
	mu   sync.Mutex
	rows map[string][]string
	last map[string]int64
}

var notes = measure.Schema{Name: "notes", Fields: append(collect.Columns(),
	measure.Field{Name: "subject", Type: measure.String}, measure.Field{Name: "key", Type: measure.String}, measure.Field{Name: "value", Type: measure.String})}

func (k *shelf) Table(_ string, s omsp.Schema) (collect.Table, error) {
	if s.Index == 0 {
		return collect.Table{Schema: &notes}, nil
	}
	schema, err := collect.SchemaOf(s.Name, "", s)
	return collect.Table{Name: s.Name, Schema: schema}, err
}
func (k *shelf) Start(_ string, start int64) (int64, error) { return start, nil }
func (k *shelf) Ended(collect.Connection)                   {}
func (k *shelf) Stored(_ context.Context, _ uint64, t collect.Table) (int64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[t.Schema.Name], nil
}
func (k *shelf) Store(schema *measure.Schema, r arrow.RecordBatch, done func(error)) {
	k.mu.Lock()
	for i := range int(r.NumRows()) {
		var words []string
		for _, column := range append(r.Columns()[3:4:4], r.Columns()[6:]...) {
			words = append(words, strings.Clone(column.ValueStr(i)))
		}
		k.rows[schema.Name] = append(k.rows[schema.Name], strings.Join(words, " "))
		fmt.Sscan(words[0], new(int64))
		var seq int64
		fmt.Sscan(words[0], &seq)
		k.last[schema.Name] = seq
	}
	k.mu.Unlock()
	done(nil)
}
func (k *shelf) of(stream string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.rows[stream]...)
}

// notes returns the metadata without its numbers: a point that is created when the client has
// connected already is declared by the first one.
func (k *shelf) notes() []string {
	notes := k.of("notes")
	for i, note := range notes {
		_, notes[i], _ = strings.Cut(note, " ")
	}
	return notes
}

func newShelf() *shelf { return &shelf{rows: map[string][]string{}, last: map[string]int64{}} }

// serve runs a collector on an address until the returned function.
func serve(t *testing.T, k *shelf, address, token string) (string, func()) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c := collect.New(collect.Options{Backend: k, Linger: time.Millisecond})
	go c.Serve(listener, token)
	stop := sync.OnceFunc(func() { listener.Close(); c.Close() })
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

func begin(t *testing.T, o Options) (*Client, *Point) {
	t.Helper()
	o.Domain, o.Sender, o.App, o.Pause = "d", "s", "app", time.Millisecond
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Point("t", omsp.Field{Name: "n", Type: omsp.Int64})
	if err != nil {
		t.Fatal(err)
	}
	return c, p
}

func inject(p *Point, n int64) error {
	values := make([]omsp.Value, 1)
	values[0].SetInt(omsp.Int64, n)
	return p.Inject(values)
}

func closed(t *testing.T, c *Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestCollectorRestarts: every tuple is stored once, in order.
func TestCollectorRestarts(t *testing.T) {
	k := newShelf()
	address, stop := serve(t, k, "127.0.0.1:0", "secret")
	c, p := begin(t, Options{Address: address, Token: "secret"})
	const rounds, each = 4, 500
	for round := range rounds {
		for n := range each {
			if err := inject(p, int64(round*each+n)); err != nil {
				t.Fatal(err)
			}
			if n == each/2 {
				stop()
				_, stop = serve(t, k, address, "secret")
			}
		}
	}
	late, err := c.Point("late", omsp.Field{Name: "x", Type: omsp.Double})
	if err != nil {
		t.Fatal(err)
	}
	values := make([]omsp.Value, 1)
	values[0].SetDouble(0.1)
	if err := late.Inject(values); err != nil {
		t.Fatal(err)
	}
	closed(t, c)
	got := k.of("app_t")
	for i, row := range got {
		if want := fmt.Sprintf("%d %d", i+1, i); row != want {
			t.Fatalf("row %d is %q, want %q", i, row, want)
		}
	}
	if len(got) != rounds*each || len(k.of("app_late")) != 1 || c.Dropped() != 0 {
		t.Errorf("%d rows of %d, %d of the late point, %d dropped", len(got), rounds*each, len(k.of("app_late")), c.Dropped())
	}
}

func TestDropsAreReported(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // reserves the port, on which nothing listens
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	c, p := begin(t, Options{Address: address, Buffer: 200})
	kept := 0
	for n := range int64(100) {
		switch err := inject(p, n); {
		case err == nil:
			kept++
		case !errors.Is(err, ErrDropped):
			t.Fatal(err)
		}
	}
	if kept == 0 || kept == 100 || c.Dropped() != uint64(100-kept) {
		t.Fatalf("%d kept, %d dropped", kept, c.Dropped())
	}
	k := newShelf()
	serve(t, k, address, "")
	closed(t, c)
	if got := k.of("app_t"); len(got) != kept {
		t.Errorf("%d rows, want %d", len(got), kept)
	}
	if got, want := k.of("notes"), fmt.Sprintf("1 .app_t dropped %d", 100-kept); len(got) != 1 || got[0] != want {
		t.Errorf("notes %q, want %q", got, want)
	}
}

// TestCollectorWithoutGreeting: a collector that sends none, such as OML's, gets the tuples
// without acknowledgements.
func TestCollectorWithoutGreeting(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	received := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		text, _ := io.ReadAll(conn)
		received <- string(text)
	}()
	c, p := begin(t, Options{Address: listener.Addr().String(), Greeting: time.Millisecond})
	for n := range int64(3) {
		inject(p, n)
	}
	closed(t, c)
	if text := <-received; strings.Count(text, "\t1\t") != 3 || !strings.HasPrefix(text, "protocol: 4\n") {
		t.Errorf("the collector received %q", text)
	}
}

func TestCloseIsBounded(t *testing.T) {
	c, p := begin(t, Options{Address: "127.0.0.1:1"})
	inject(p, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// FuzzAnswers: no answer of a collector makes the client hold more than before.
// TestSessionOfAnEarlierRun: a run that was killed is repeated, and each tuple is stored once.
func TestSessionOfAnEarlierRun(t *testing.T) {
	k := newShelf()
	address, stop := serve(t, k, "localhost:0", "")
	defer stop()
	session, err := NewSession()
	if err != nil {
		t.Fatal(err)
	}
	for run, c := range []struct{ skip, until int64 }{{0, 4}, {0, 7}, {5, 9}} {
		client, p := begin(t, Options{Address: address, Session: session, Complete: true})
		p.Skip(int(c.skip))
		for n := c.skip + 1; n <= c.until; n++ {
			if err := inject(p, n); err != nil {
				t.Fatal(err)
			}
		}
		closed(t, client)
		if stored := k.of(p.schema.Name); int64(len(stored)) != c.until {
			t.Errorf("after run %d %d tuples are stored, want %d: %q", run, len(stored), c.until, stored)
		}
	}
}

// TestInjectedAgain: tuples that the collector had stored before are done with, although it
// acknowledges them only once, at the beginning of the connection.
func TestInjectedAgain(t *testing.T) {
	address, stop := serve(t, newShelf(), "localhost:0", "")
	defer stop()
	session, err := NewSession()
	if err != nil {
		t.Fatal(err)
	}
	for run := range 2 {
		client, p := begin(t, Options{Address: address, Session: session, Complete: true})
		for n := int64(1); n <= 2; n++ {
			if err := inject(p, n); err != nil {
				t.Fatal(err)
			}
		}
		for end := time.Now().Add(hang.Limit); run > 0; time.Sleep(time.Millisecond) {
			if _, stored := p.Progress(); stored == 4 {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the collector does not say what it has")
			}
		}
		for n := int64(3); n <= 4; n++ {
			if err := inject(p, n); err != nil {
				t.Fatal(err)
			}
		}
		closed(t, client)
	}
}

// TestComplete: requests for fewer samples are not for everybody.
func TestComplete(t *testing.T) {
	c, _ := begin(t, Options{Address: "localhost:1", Complete: true})
	l := &link{client: c, greeted: make(chan struct{})}
	for _, line := range []string{"thin 4", "aggregate 100", "slow 5000"} {
		l.handle(line)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.thin != 1 || c.every != 0 || c.rate != 5000 {
		t.Errorf("1 in %d, aggregates over %v, rate %d", c.thin, c.every, c.rate)
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add("pillion 1\nstored 1 3\nstored 0 1\ngo\nstored 1 99\nthin 4\n")
	f.Add("go\ngo\nstored -1 -1\nstored 1\nstored 1 99999999999999999999\nstored 2000000 1")
	f.Fuzz(func(t *testing.T, text string) {
		c := &Client{changed: make(chan struct{}), stored: map[int]int64{}, points: make([]*Point, 2)}
		for n := range int64(5) {
			c.queue = append(c.queue, entry{int(n % 3), n + 1, []byte("x")})
			c.bytes++
		}
		l := &link{client: c, greeted: make(chan struct{})}
		for line := range strings.Lines(text) {
			l.handle(strings.TrimSuffix(line, "\n"))
		}
		if c.bytes != len(c.queue) || len(c.stored) > 3 || c.sent < 0 {
			t.Errorf("%d bytes, %d queued, %d streams", c.bytes, len(c.queue), len(c.stored))
		}
	})
}
