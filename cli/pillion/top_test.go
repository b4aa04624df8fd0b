package pillion

import (
	"bytes"
	"context"
	"math"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/cli/terminal"
	"pillion.dev/internal/test/hang"
)

// WatchPairs sends two seconds of two pairs, and then nothing.
func (f *fake) WatchPairs(ctx context.Context, r *pillionv1.WatchPairsRequest, s *connect.ServerStream[pillionv1.WatchPairsResponse]) error {
	for second := range int64(2) {
		if err := s.Send(pairsAt(noon.Unix() + second)); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func pairsAt(second int64) *pillionv1.WatchPairsResponse {
	nan := float32(math.NaN())
	m := &pillionv1.WatchPairsResponse{StartMs: second * 1000, Sources: []uint32{0, 1}, Destinations: []uint32{1, 0}, Packets: []uint32{100, 50}, Expected: []uint32{102, 50},
		Lost: []uint32{2, 0}, P50Ns: []float32{500_000, nan}, P99Ns: []float32{900_000, nan}, Rate: []float32{8e6, 1000}, ClockErrorNs: []float32{30_000, nan},
		Reordered: []uint32{1, 0}, Duplicated: []uint32{0, 3}}
	if second == noon.Unix() {
		m.Agents = []string{"north1", "south1"}
	}
	return m
}

func (f *fake) Windows(context.Context, *pillionv1.WindowsRequest) (*pillionv1.WindowsResponse, error) {
	return &pillionv1.WindowsResponse{StepMs: 1000, Windows: cannedWindows(0, 3)}, nil
}

func (f *fake) WatchWindows(ctx context.Context, r *pillionv1.WatchWindowsRequest, s *connect.ServerStream[pillionv1.WatchWindowsResponse]) error {
	if err := s.Send(&pillionv1.WatchWindowsResponse{StepMs: 1000, Windows: cannedWindows(2, 5)}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// cannedWindows are those of a range of seconds, without the second 1.
func cannedWindows(from, to int64) []*pillionv1.Window {
	var all []*pillionv1.Window
	for second := from; second < to; second++ {
		if second == 1 {
			continue
		}
		ns := float64(100_000 * (second + 1))
		all = append(all, &pillionv1.Window{StartMs: noon.UnixMilli() + 1000*second, Packets: 100, Expected: 104, Lost: 4, ClockErrorNs: 30_000,
			Delay: &pillionv1.Distribution{Count: 100, P50Ns: ns, P90Ns: 2 * ns, P99Ns: 3 * ns}, Ipdv: &pillionv1.Distribution{P90Ns: 20_000}})
	}
	return all
}

// newTestTop is a top that is connected to a fake, without a terminal.
func newTestTop(t *testing.T, by string) (*top, context.Context) {
	t.Helper()
	_, server := newFake(t)
	return newTopOf(t, server, by)
}

func newTopOf(t *testing.T, server *httptest.Server, by string) (*top, context.Context) {
	t.Helper()
	a := &app{format: "table", out: &bytes.Buffer{}, err: &bytes.Buffer{}, flags: &connection{Server: server.URL, Token: secret, CA: authorityFile(t, server)}}
	client, err := a.dial()
	if err != nil {
		t.Fatal(err)
	}
	x := newTop(a, client, &topCmd{By: by, Sort: "p99", Over: 10 * time.Second})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		x.feeds.Wait()
		client.Close()
	})
	x.open(ctx)
	return x, ctx
}

// reach updates a top until its frame has a text.
func reach(t *testing.T, x *top, ctx context.Context, text string) string {
	t.Helper()
	for {
		shown := terminal.Text(strings.Join(x.frame(160, 30), "\n"))
		if strings.Contains(shown, text) {
			return shown
		}
		select {
		case n := <-x.news:
			if err := x.update(n); err != nil {
				t.Fatal(err)
			}
		case <-time.After(hang.Limit):
			t.Fatalf("no %q in\n%s", text, shown)
		}
	}
}

func TestTopDrillsDown(t *testing.T) {
	x, ctx := newTestTop(t, "pair")
	shown := reach(t, x, ctx, "▁▁")
	// Each of both seconds lost 2 of 102 packets and reordered 1 of 100.
	for _, want := range []string{"north1", "south1", "900 µs", "±30.0 µs", "1.96 %", "1.00 %", "100.0", "8 Mbit/s", "P99▼", "6.00 %"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in\n%s", want, shown)
		}
	}
	if x.press(ctx, terminal.Enter) {
		t.Fatal("Enter quits")
	}
	shown = reach(t, x, ctx, "10.0.0.1:40000")
	for _, want := range []string{"flows of north1 > south1", "508 µs", "2 of 3"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in\n%s", want, shown)
		}
	}
	x.press(ctx, terminal.Enter)
	shown = reach(t, x, ctx, "500 µs")
	for _, want := range []string{"measured between north1 > south1", "P50", "≤1.50 ms", "3.85 %"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in\n%s", want, shown)
		}
	}
	x.press(ctx, terminal.Escape)
	reach(t, x, ctx, "flows of north1")
	x.press(ctx, terminal.Escape)
	reach(t, x, ctx, "pairs")
	if !x.press(ctx, "q") {
		t.Error("q does not quit")
	}
}

func TestTopFlowOfAllFindsItsPair(t *testing.T) {
	x, ctx := newTestTop(t, "flow")
	reach(t, x, ctx, "10.0.0.1:40000")
	x.press(ctx, terminal.Enter)
	reach(t, x, ctx, "measured between 10.0.0.1 > 10.9.0.2") // the fake's answer for pairs too
}

func TestTopKeys(t *testing.T) {
	x, ctx := newTestTop(t, "pair")
	reach(t, x, ctx, "500 µs")
	first := func() string {
		rows, _ := x.listed()
		return x.arrange(rows)[0].name()
	}
	for _, step := range []struct {
		keys        []string
		sort, first string
	}{
		{nil, "p99", "north1 > south1"},
		{[]string{"r"}, "p99", "north1 > south1"}, // the other has no delays
		{[]string{"r", ">", ">"}, "loss", "north1 > south1"},
		{[]string{"r"}, "loss", "south1 > north1"},
		{[]string{"r", ">", ">"}, "duplicated", "south1 > north1"},
		{[]string{"<", "<", "<", "<", "<", "<", "<"}, "source", "north1 > south1"},
		{[]string{"/", "S", "o", "u", "x", terminal.Backspace, "t", "h", "1", " ", ">", terminal.Enter}, "source", "south1 > north1"},
		{[]string{terminal.Escape}, "source", "north1 > south1"},
		{[]string{terminal.Down}, "source", "north1 > south1"},
	} {
		for _, key := range step.keys {
			if x.press(ctx, key) {
				t.Fatalf("%v quits", step.keys)
			}
		}
		if x.sort != step.sort || first() != step.first {
			t.Errorf("after %v: sorted by %s, first %s; want %s, %s", step.keys, x.sort, first(), step.sort, step.first)
		}
	}
	if x.selected != "south1\x00north1" {
		t.Errorf("selected %q", x.selected)
	}
	x.press(ctx, "?")
	if shown := strings.Join(x.frame(100, 30), "\n"); !strings.Contains(shown, "RFC 4737") {
		t.Errorf("no help in\n%s", shown)
	}
	x.press(ctx, "x")
	x.press(ctx, " ")
	if shown := strings.Join(x.frame(100, 30), "\n"); !strings.Contains(shown, "PAUSED") {
		t.Errorf("not paused:\n%s", shown)
	}
	if !x.press(ctx, terminal.Interrupt) {
		t.Error("Ctrl-C does not quit")
	}
}

func TestTopFits(t *testing.T) {
	x, ctx := newTestTop(t, "pair")
	reach(t, x, ctx, "500 µs")
	flow := newTopFlow(x, "10.0.0.1:1 > 10.0.0.2:2 tcp", &pillionv1.Selection{Source: "a", Destination: "b"})
	flow.take(1000, cannedWindows(0, 200))
	x.session = cannedSession("paused")
	for _, level := range []topLevel{x.levels[0], flow} {
		x.levels = []topLevel{level}
		for width := 1; width <= 220; width += 3 {
			for _, height := range []int{1, 2, 5, 24, 50} {
				lines := x.frame(width, height)
				if len(lines) != height {
					t.Fatalf("%s: %d lines in %d", level.title(), len(lines), height)
				}
				for _, line := range lines {
					if n := utf8.RuneCountInString(terminal.Text(line)); n > width {
						t.Fatalf("%s: line of %d in %d: %q", level.title(), n, width, line)
					}
				}
			}
		}
	}
}

// TestTopReconnects: the connection is cut amid a stream.
func TestTopReconnects(t *testing.T) {
	_, server := newFake(t)
	x, ctx := newTopOf(t, server, "pair")
	reach(t, x, ctx, "▁▁")
	server.CloseClientConnections()
	if shown := reach(t, x, ctx, "reconnecting"); !strings.Contains(shown, "500 µs") {
		t.Errorf("the last figures are gone:\n%s", shown)
	}
	reach(t, x, ctx, "reconnected at")
}

// TestTopRowsAge: pairs without packets lose their figures, and then their lines.
func TestTopRowsAge(t *testing.T) {
	x := newTop(&app{}, nil, &topCmd{By: "pair", Sort: "p99", Over: 10 * time.Second})
	p := x.levels[0].(*topPairs)
	names := []string{"a", "b", "c"}
	p.take(pairsAt(1000), names)
	only := pairsAt(1000 + 20)
	only.Sources, only.Destinations = []uint32{0, 1}, []uint32{2, 2}
	p.take(only, names)
	for _, row := range p.rows() {
		if old := row.destination != "c"; old != (row.packets == 0) {
			t.Errorf("%s has %d packets", row.name(), row.packets)
		}
	}
	only.StartMs += 45_000
	p.take(only, names)
	if n := len(p.rows()); n != 2 {
		t.Errorf("%d rows", n)
	}
}

// TestTopSaysWhy: a session without figures says why.
func TestTopSaysWhy(t *testing.T) {
	x := newTop(&app{}, nil, &topCmd{By: "pair", Session: "web", Sort: "p99", Over: 10 * time.Second})
	x.fed, x.session = true, cannedSession("running")
	x.session.Tasks = x.session.Tasks[:1]
	shows := func(want string) {
		t.Helper()
		if shown := strings.Join(x.frame(160, 10), "\n"); !strings.Contains(shown, want) {
			t.Errorf("no %q in\n%s", want, shown)
		}
	}
	shows("no marked packets arrive")
	x.session.Tasks[0].Running = false
	shows("no agent has started to measure yet")
	x.session.Tasks[0].Error = "no device"
	shows("is not running: no device")
	x.session.State, x.session.Reason = "paused", "by me"
	shows("the session is paused: by me")
}

func TestTopOnce(t *testing.T) {
	_, server := newFake(t)
	p := newProgram(t, server)
	out, stderr, code := p.run("top", "--once")
	if code != 0 || !regexp.MustCompile(`10\.0\.0\.1 +10\.9\.0\.2 +508 µs +799 µs`).MatchString(out) || !strings.HasPrefix(out, "SOURCE") {
		t.Errorf("exit %d, %s\n%s", code, stderr, out)
	}
	if out, _, code = p.run("top", "--once", "--by", "flow", "-o", "csv"); code != 0 || !strings.HasPrefix(out, "flow,p50_ns,") {
		t.Errorf("exit %d\n%s", code, out)
	}
	for line, want := range map[string]string{
		"top":                              "--once",
		"top -o json":                      "requires --once",
		"top --over 2m":                    "1s to 1m",
		"top --sort flow":                  "no such column",
		"top --by flow --sort source":      "no such column",
		"top --once --server 127.0.0.1:1 ": "hint",
	} {
		if _, stderr, code := p.run(strings.Fields(line)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", line, code, stderr)
		}
	}
}

func FuzzPairs(f *testing.F) {
	f.Add(int64(1000), uint32(0), uint32(1), uint32(5), float32(1e6), 2)
	f.Add(int64(-1), uint32(7), uint32(1), uint32(0), float32(math.Inf(1)), 1)
	f.Fuzz(func(t *testing.T, start int64, source, destination, packets uint32, delay float32, names int) {
		x := newTop(&app{}, nil, &topCmd{By: "pair", Sort: "p50", Over: time.Minute})
		p := x.levels[0].(*topPairs)
		known := slices.Repeat([]string{"a"}, max(0, min(names, 9)))
		p.take(&pillionv1.WatchPairsResponse{StartMs: start, Sources: []uint32{source}, Destinations: []uint32{destination}, Packets: []uint32{packets}, Expected: []uint32{packets},
			Lost: []uint32{packets}, P50Ns: []float32{delay}, P99Ns: []float32{delay}, Rate: []float32{delay}, ClockErrorNs: []float32{delay}}, known)
		for _, row := range x.arrange(p.rows()) {
			for _, c := range p.columns() {
				c.cell(row)
			}
		}
	})
}

func TestTransient(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"server stops":   {connect.NewError(connect.CodeUnavailable, context.Canceled), true},
		"cut message":    {connect.NewError(connect.CodeInvalidArgument, context.Canceled), true},
		"no call":        {context.Canceled, false},
		"not authorised": {connect.NewError(connect.CodeUnauthenticated, context.Canceled), false},
		"older server":   {connect.NewError(connect.CodeUnimplemented, context.Canceled), false},
	} {
		if got := transient(test.err); got != test.want {
			t.Errorf("%s: transient is %t", name, got)
		}
	}
}
