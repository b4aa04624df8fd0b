package client

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/oml/omsp"
)

// connected waits until the greeting, which ends requests of another collector.
func connected(t *testing.T, c *Client, p *Point) {
	t.Helper()
	if err := inject(p, 0); err != nil {
		t.Fatal(err)
	}
	for c.Waiting() > 0 {
		runtime.Gosched()
	}
}

// TestAggregate: the collector requests aggregates, which are a stream of their own, and
// then samples again.
func TestAggregate(t *testing.T) {
	k := newShelf()
	address, _ := serve(t, k, "127.0.0.1:0", "")
	c, p := begin(t, Options{Address: address})
	other, err := c.Point("other", omsp.Field{Name: "x", Type: omsp.Double}, omsp.Field{Name: "s", Type: omsp.String})
	if err != nil {
		t.Fatal(err)
	}
	connected(t, c, p)
	l := &link{client: c}
	l.handle("aggregate 3600000")
	text := []byte("abc")
	for n := range int64(5) {
		values := make([]omsp.Value, 2)
		values[0].SetDouble(float64(n) / 2)
		values[1].SetString(string(text))
		text[0]++
		if err := inject(p, n*n); err != nil {
			t.Fatal(err)
		}
		if err := other.Inject(values); err != nil {
			t.Fatal(err)
		}
	}
	l.handle("aggregate 0")
	if err := inject(p, 7); err != nil {
		t.Fatal(err)
	}
	l.handle("aggregate 1") // a window that time ends
	if err := inject(p, 8); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); len(k.of("app_t_aggregate")) < 2; {
		if time.Since(begun) > patience {
			t.Fatal("the window does not end")
		}
		runtime.Gosched()
	}
	l.handle("aggregate 3600000")
	if err := inject(p, 9); err != nil { // a window that Close ends
		t.Fatal(err)
	}
	closed(t, c)
	for stream, want := range map[string][]string{
		"app_t": {"1 0", "2 7"}, "app_t_aggregate": {"1 6 0 16", "2 8 8 8", "3 9 9 9"}, "app_other": nil, "app_other_aggregate": {"1 1 0 2 abc"},
	} {
		if got := k.of(stream); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", stream, got, want)
		}
	}
	said := strings.Join(k.of("notes"), "\n")
	for _, part := range []string{".app_t aggregated 3600000", ".app_t aggregated 0"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q is not in the notes\n%s", part, said)
		}
	}
}

// TestSlow: the collector requests a rate; nothing is lost, and Close is not delayed.
func TestSlow(t *testing.T) {
	k := newShelf()
	address, _ := serve(t, k, "127.0.0.1:0", "")
	c, p := begin(t, Options{Address: address})
	connected(t, c, p)
	l := &link{client: c}
	l.handle("slow 1")
	l.handle("slow -1") // invalid
	begun := time.Now()
	for n := range int64(1000) {
		if err := inject(p, n); err != nil {
			t.Fatal(err)
		}
	}
	for time.Since(begun) < 300*time.Millisecond {
		time.Sleep(20 * time.Millisecond)
	}
	if n := len(k.of("app_t")); n > 500 {
		t.Errorf("%d tuples after %v", n, time.Since(begun))
	}
	closed(t, c)
	if got := k.of("app_t"); len(got) != 1001 || got[1000] != fmt.Sprintf("%d %d", 1001, 999) {
		t.Errorf("%d tuples, the last is %q", len(got), got[len(got)-1])
	}
	if got := k.notes(); !slices.Contains(got, ". slowed 1") {
		t.Errorf("notes %q", got)
	}
}
