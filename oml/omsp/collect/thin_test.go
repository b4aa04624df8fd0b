package collect_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
	"pillion.dev/measure/application"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/collect"
)

// noter is a Backend that keeps only metadata, as text.
type noter struct {
	mu    sync.Mutex
	notes []string
}

func (*noter) Table(_ string, s omsp.Schema) (collect.Table, error) {
	schema, err := collect.SchemaOf("t", "", s)
	return collect.Table{Name: s.Name, Schema: schema}, err
}
func (*noter) Start(_ string, start int64) (int64, error)                   { return start, nil }
func (*noter) Stored(context.Context, uint64, collect.Table) (int64, error) { return 0, nil }
func (*noter) Ended(collect.Connection)                                     {}
func (n *noter) Store(_ *measure.Schema, r arrow.RecordBatch, done func(error)) {
	n.mu.Lock()
	n.notes = append(n.notes, fmt.Sprint(r.Column(1), r.Column(6), r.Column(7), r.Column(8)))
	n.mu.Unlock()
	done(nil)
}

// TestFeedback: clients are asked for what they announce, in the way that the collector is
// set to.
func TestFeedback(t *testing.T) {
	for kind, want := range map[application.Feedback][]string{
		application.FeedbackSlow: {"slow 1000", "slow 0"}, application.FeedbackAggregate: {"aggregate 400", "aggregate 0"}, application.FeedbackThin: {"thin 4", "thin 1"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			n := &noter{}
			c := collect.New(collect.Options{Backend: n, Feedback: kind})
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- c.Serve(listener, "") }()
			t.Cleanup(func() { c.Close(); <-ended })
			var clients []*bufio.Reader
			for i, extra := range []string{"pillion-feedback: thin slow aggregate\n", ""} {
				conn, err := net.Dial("tcp", listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				conn.SetDeadline(time.Now().Add(hang.Limit))
				fmt.Fprintf(conn, "protocol: 4\ndomain: lab\nstart-time: 1\nsender-id: me\napp-name: a\npillion-session: %016x%016x\n%scontent: text\n\n", i+1, 0, extra)
				clients = append(clients, bufio.NewReader(conn))
			}
			expect := func(from *bufio.Reader, want string) {
				t.Helper()
				if line, err := from.ReadString('\n'); line != want+"\n" {
					t.Fatalf("the collector sent %q, %v, want %q", line, err, want)
				}
			}
			for _, from := range clients {
				expect(from, "pillion 1")
				expect(from, "go")
			}
			for i, n := range []int{4, 1} {
				c.Thin(n)
				expect(clients[0], want[i])
				expect(clients[1], fmt.Sprintf("thin %d", n))
			}
		})
	}
	if _, err := application.ParseFeedback("loud"); err == nil {
		t.Error("any kind is valid")
	}
}

// TestThin: all sessions get the request, including later ones; clients without a
// session never get a byte.
func TestThin(t *testing.T) {
	n := &noter{}
	c := collect.New(collect.Options{Backend: n})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(listener, "") }()
	t.Cleanup(func() {
		c.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	dial := func(extra string) (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(hang.Limit))
		fmt.Fprintf(conn, "protocol: 4\ndomain: lab\nstart-time: 1\nsender-id: me\napp-name: a\n%scontent: text\n\n", extra)
		return conn, bufio.NewReader(conn)
	}
	expect := func(from *bufio.Reader, want string) {
		t.Helper()
		if line, err := from.ReadString('\n'); line != want+"\n" {
			t.Fatalf("the collector sent %q, %v, want %q", line, err, want)
		}
	}
	_, first := dial("pillion-session: 00000000000000010000000000000000\n")
	expect(first, "pillion 1")
	expect(first, "go")
	other, silent := dial("")
	// A session that got "go" may not be in the audience yet: it gets the request when it joins.
	c.Thin(4)
	expect(first, "thin 4")
	_, later := dial("pillion-session: 00000000000000020000000000000000\n")
	for _, want := range []string{"pillion 1", "go", "thin 4"} {
		expect(later, want)
	}
	c.Thin(1)
	expect(first, "thin 1")
	expect(later, "thin 1")
	n.mu.Lock()
	if len(n.notes) < 2 || n.notes[len(n.notes)-1] != `["me"] ["."] ["thin"] ["1"]` {
		t.Errorf("notes: %q", n.notes)
	}
	n.mu.Unlock()
	if err := other.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text, err := silent.ReadString('\n'); text != "" || err == nil {
		t.Errorf("a client without a session received %q", text)
	}
}
