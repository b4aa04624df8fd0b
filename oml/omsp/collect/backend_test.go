package collect

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp"
)

// patience is the timeout of every wait for a condition.
const patience = hang.Limit

// shelf is a Backend in memory.
type shelf struct {
	mu      sync.Mutex
	starts  map[string]int64
	rows    map[string][]string // by stream; each "sender seq values..."
	last    map[string]int64    // by stream and session
	batches int
	ended   []Connection
	// slow domains wait in Store, or in done, until the channel is closed.
	slow, undone map[string]chan struct{}
	refuse       bool
}

func newShelf() *shelf {
	return &shelf{
		starts: map[string]int64{}, rows: map[string][]string{}, last: map[string]int64{},
		slow: map[string]chan struct{}{}, undone: map[string]chan struct{}{},
	}
}

var notes = measure.Schema{Name: "notes", Fields: append(Columns(),
	measure.Field{Name: "domain", Type: measure.String}, measure.Field{Name: "subject", Type: measure.String},
	measure.Field{Name: "key", Type: measure.String}, measure.Field{Name: "value", Type: measure.String})}

func (k *shelf) Table(domain string, s omsp.Schema) (Table, error) {
	if s.Index == 0 {
		return Table{Name: s.Name, Schema: &notes, Before: []string{domain}}, nil
	}
	if s.Name == "forbidden" {
		return Table{}, fmt.Errorf("no space for %s", s.Name)
	}
	name := fmt.Sprintf("%s_%s_%d", domain, strings.ToLower(s.Name), len(s.Fields))
	schema, err := SchemaOf(name, "", s)
	return Table{Name: s.Name, Schema: schema}, err
}

func (k *shelf) Start(domain string, start int64) (int64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.starts[domain]; !known {
		k.starts[domain] = start
	}
	return k.starts[domain], nil
}

func (k *shelf) Stored(_ context.Context, session uint64, t Table) (int64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[fmt.Sprint(t.Schema.Name, session)], nil
}

func (k *shelf) Store(schema *measure.Schema, record arrow.RecordBatch, done func(error)) {
	domain, _, _ := strings.Cut(schema.Name, "_")
	k.mu.Lock()
	slow, undone := k.slow[domain], k.undone[domain]
	k.mu.Unlock()
	if slow != nil {
		<-slow
	}
	record.Retain()
	settle := func() {
		defer record.Release()
		if k.refuse {
			done(fmt.Errorf("refused"))
			return
		}
		k.keep(schema.Name, record)
		done(nil)
	}
	if undone == nil {
		settle()
		return
	}
	go func() {
		<-undone
		settle()
	}()
}

func (k *shelf) keep(stream string, record arrow.RecordBatch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.batches++
	for i := range int(record.NumRows()) {
		var words []string
		for j, column := range record.Columns() {
			if j == 1 || j == 3 || j > 5 { // sender, seq, values
				words = append(words, strings.Clone(column.ValueStr(i)))
			}
		}
		k.rows[stream] = append(k.rows[stream], strings.Join(words, " "))
		var seq int64
		fmt.Sscan(record.Column(3).ValueStr(i), &seq)
		k.last[stream+record.Column(2).ValueStr(i)] = seq
	}
}

func (k *shelf) Ended(c Connection) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = append(k.ended, c)
}

func (k *shelf) of(stream string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.rows[stream]...)
}

func (k *shelf) connections() []Connection {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]Connection(nil), k.ended...)
}

// target is a collector on loopback.
type target struct {
	*Collector
	shelf   *shelf
	address string
	log     *journal
}

type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) count(word string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), word)
}

func begin(t *testing.T, o Options, token string) *target {
	t.Helper()
	s := &target{shelf: newShelf(), log: &journal{}}
	o.Backend, o.Log = s.shelf, slog.New(slog.NewTextHandler(s.log, nil))
	s.Collector = New(o)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener, token) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// client is a connection to a collector.
type client struct {
	t *testing.T
	*net.TCPConn
	lines *bufio.Reader
}

func (s *target) dial(t *testing.T, text string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	c := &client{t, conn.(*net.TCPConn), bufio.NewReader(conn)}
	c.send(text)
	return c
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.TCPConn, text); err != nil {
		c.t.Fatal(err)
	}
}

// expect fails the test unless the collector sends these lines.
func (c *client) expect(want ...string) {
	c.t.Helper()
	for _, line := range want {
		got, err := c.lines.ReadString('\n')
		if err != nil || got != line+"\n" {
			c.t.Fatalf("received %q, %v, want %q", got, err, line)
		}
	}
}

// finish ends sending and expects the collector to close the connection.
func (c *client) finish() {
	c.t.Helper()
	c.CloseWrite()
	if rest, err := io.ReadAll(c.lines); err != nil || len(rest) != 0 {
		c.t.Fatalf("received %q, %v at the end", rest, err)
	}
}

// header of a client; extra are whole lines.
func header(domain string, start int, extra string) string {
	return fmt.Sprintf("protocol: 4\ndomain: %s\nstart-time: %d\nsender-id: s\napp-name: app\n%scontent: text\n\n", domain, start, extra)
}

const oneStream = "schema: 1 app_t n:int64 word:string\n"

func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(patience); !holds(); <-ticks.C {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}
