package pillion

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
)

func newWatching(t *testing.T) *watching {
	t.Helper()
	w := &watching{app: &app{format: "table", out: &bytes.Buffer{}, err: &bytes.Buffer{}}, name: "web", last: time.Now()}
	w.session = cannedSession("running")
	w.session.Tasks = w.session.Tasks[:1]
	w.lines = lines{all: map[string]*line{}, closed: w.countOnly}
	return w
}

func TestWindowMergesFlows(t *testing.T) {
	w := newWatching(t)
	if err := w.hear(news{rows: flowRows()}); err != nil {
		t.Fatal(err)
	}
	to := w.lines.sorted()[0]
	past, now := to.history, to.now
	if len(past) != 1 || past[0] != 515_527 {
		t.Errorf("history %v, want [515527]", past)
	}
	// The oracle: 200 values, 20 in the bucket of 400 µs, 80 of 500, 90 of 600, 10 of 800.
	if now.packets != 200 || now.p50 != 515_527 || now.p90 != 616_562 || now.p99 != 818_750 || now.clock != 35_000 || !now.clockKnown {
		t.Errorf("window %+v", now)
	}
	if loss := now.loss(); math.Abs(loss-200.0/202) > 1e-9 {
		t.Errorf("loss %v", loss)
	}
}

func TestWindowWithoutHistograms(t *testing.T) {
	w := newWindow(0, 1e9)
	row := flowRow{"delay_p50_ns": intValue(5), "delay_count": intValue(1)}
	if w.add(row); !w.quantiles || w.clockKnown {
		t.Errorf("one flow: %+v", w)
	}
	if w.add(row); w.quantiles {
		t.Error("medians of two flows were put together without their histograms")
	}
}

func TestHistoryKeepsGaps(t *testing.T) {
	l := lines{all: map[string]*line{}, closed: func(*line, *window) error { return nil }}
	for _, second := range []int64{1, 2, 5} {
		row := flowRow{"time": timeValue(time.Unix(second, 0)), "interval_ns": intValue(1e9), "delay_p50_ns": intValue(second), "delay_count": intValue(1)}
		if err := l.take(row); err != nil {
			t.Fatal(err)
		}
	}
	history := l.sorted()[0].history
	if len(history) != 4 || history[1] != 2 || !math.IsNaN(history[2]) || !math.IsNaN(history[3]) {
		t.Fatalf("history %v, want 1, 2, and two gaps", history)
	}
}

func TestFrameFits(t *testing.T) {
	w := newWatching(t)
	if err := w.hear(news{rows: flowRows()}); err != nil {
		t.Fatal(err)
	}
	for width := 1; width <= 200; width++ {
		for _, height := range []int{1, 3, 24} {
			frame := w.frame(width, height)
			if len(frame) > height {
				t.Fatalf("%d lines in %d", len(frame), height)
			}
			for _, line := range frame {
				if n := utf8.RuneCountInString(line); n > width {
					t.Fatalf("line of %d in %d: %q", n, width, line)
				}
			}
		}
	}
	wide := strings.Join(w.frame(160, 24), "\n")
	for _, part := range []string{"north1", "south1", "200.0", "0.99 %", "516 µs", "617 µs", "819 µs", "±35.0 µs", "20.0 µs", "▁▁", "IPDV"} {
		if !strings.Contains(wide, part) {
			t.Errorf("no %q in\n%s", part, wide)
		}
	}
	if narrow := strings.Join(w.frame(72, 24), "\n"); strings.Contains(narrow, "IPDV") || !strings.Contains(narrow, "516 µs") {
		t.Errorf("a narrow terminal shows\n%s", narrow)
	}
}

func TestWhy(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	for _, test := range []struct {
		name string
		set  func(*watching)
		want string
	}{
		{"all well", func(*watching) {}, ""},
		{"no traffic", func(w *watching) { w.last = long }, "no marked packets arrive"},
		{"no task", func(w *watching) { w.last, w.session.Tasks = long, nil }, "no agent has started to measure"},
		{"task fails", func(w *watching) { w.session.Tasks[0].Error = "no device" }, "destination on south1 is not running: no device"},
		{"scheduled", func(w *watching) { w.session.State, w.session.NextStart = "scheduled", timestamppb.New(noon) }, "scheduled to start at"},
		{"paused", func(w *watching) { w.session.State, w.session.Reason = "paused", "by me" }, "the session is paused: by me"},
		{"slow", func(w *watching) { w.missed = 7 }, "7 rows skipped"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWatching(t)
			test.set(w)
			got := strings.Join(w.why(), "; ")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Fatalf("got %q, want %q", got, test.want)
			}
		})
	}
}

func FuzzFlowRow(f *testing.F) {
	f.Add(int64(1), int64(1e9), uint64(5), int64(7), int64(9))
	f.Fuzz(func(t *testing.T, at, interval int64, packets uint64, bound, count int64) {
		l := lines{byFlow: true, all: map[string]*line{}, closed: func(*line, *window) error { return nil }}
		for range 3 {
			row := flowRow{"time": {Kind: &pillionv1.Value_Time{Time: at}}, "interval_ns": intValue(interval), "packets": {Kind: &pillionv1.Value_Uint{Uint: packets}},
				"delay_p50_ns": intValue(bound), "delay_bounds_ns": listValue(bound, bound), "delay_counts": listValue(count)}
			if err := l.take(row); err != nil {
				t.Fatal(err)
			}
			at += interval
		}
		for _, to := range l.sorted() {
			to.now.cells()
			if len(to.history) > historyMax {
				t.Fatalf("%d values of history", len(to.history))
			}
		}
	})
}

func TestLinesThatEnd(t *testing.T) {
	w := newWatching(t)
	row := func(source string, second int64) flowRow {
		return flowRow{"source": textValue(source), "time": timeValue(time.Unix(second, 0)), "interval_ns": intValue(1e9),
			"delay_p50_ns": intValue(7_000), "delay_count": intValue(1)}
	}
	for _, step := range []struct {
		name         string
		second       int64
		shown, lines int
	}{
		{"both", 1, 2, 2},
		{"one is late", 4, 2, 2},
		{"one has ended", 5, 1, 2},
		{"one is forgotten", 1 + historyMax + 1, 1, 1},
	} {
		if step.second == 1 {
			if err := w.lines.take(row("gone", 1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.lines.take(row("here", step.second)); err != nil {
			t.Fatal(err)
		}
		if err := w.lines.forget(); err != nil {
			t.Fatal(err)
		}
		frame := strings.Join(w.frame(160, 24), "\n")
		if got := strings.Count(frame, "7.00 µs"); got != step.shown || len(w.lines.all) != step.lines {
			t.Errorf("%s: %d delays shown, want %d; %d lines, want %d\n%s", step.name, got, step.shown, len(w.lines.all), step.lines, frame)
		}
	}
}
