package pillion

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
	"pillion.dev/measure/measuretest"
)

func newWatching(t *testing.T) *watching {
	t.Helper()
	w := &watching{app: &app{format: "table", out: &bytes.Buffer{}, err: &bytes.Buffer{}}, name: "web", last: time.Now()}
	w.session = cannedSession("running")
	w.session.Tasks = w.session.Tasks[:1]
	w.lines = lines{all: map[string]*line{}, closed: func(*line, *window) error { return nil }}
	return w
}

func TestWindowMergesFlows(t *testing.T) {
	w := newWatching(t)
	var past []float64
	w.lines.closed = func(_ *line, over *window) error {
		past = append(past, over.Delay.Quantile(0.5))
		return nil
	}
	if err := w.update(news{rows: flowRows()}); err != nil {
		t.Fatal(err)
	}
	now := w.lines.sorted()[0].now
	if len(past) != 1 || past[0] != 507_852 {
		t.Errorf("medians of past windows %v, want [507852]", past)
	}
	// Oracle: 200 values, 20 in the bucket of 400 µs, 80 from 499,712 to 507,903 ns,
	// 90 from 589,824 to 606,207, 10 from 786,432 to 802,815.
	if now.Packets != 200 || now.Delay.Quantile(0.5) != 507_852 || now.Delay.Quantile(0.9) != 604_296 || now.Delay.Quantile(0.99) != 798_720 || now.ClockError != flows.BoundOf(35_000) {
		t.Errorf("window %+v, median %v", now, now.Delay.Quantile(0.5))
	}
	if loss := now.Loss(); math.Abs(loss-2.0/202) > 1e-9 {
		t.Errorf("loss %v", loss)
	}
}

// delayRow has one delay.
func delayRow(second, delay int64) *flows.Row {
	r := &flows.Row{End: time.Unix(second, 0), Interval: time.Second}
	r.Delay = flows.NewDistribution(1, delay, delay, delay, histogram.Histogram{Bounds: []int64{delay}, Counts: []uint64{1}})
	return r
}

func TestWindowWithoutHistograms(t *testing.T) {
	row := delayRow(0, 5)
	row.Delay.Histogram = histogram.Histogram{}
	w := &window{interval: 1e9}
	w.Merge(&row.Sum)
	if _, _, p50, _, _, clock, _ := w.cells(); p50.shown != "-" || clock.shown != "±?" {
		t.Errorf("got %v, %v", p50, clock)
	}
}

// TestFigures: a watch prints the figures of the API for the same rows.
func TestFigures(t *testing.T) {
	f, _ := measuretest.ReadFigures(t)
	var columns []*pillionv1.Column
	for _, field := range measure.Flows.Fields {
		columns = append(columns, &pillionv1.Column{Name: field.Name})
	}
	reader, w := newFlowReader(columns), &window{interval: 1e9}
	for _, row := range f.Rows {
		message := &pillionv1.Row{}
		for _, c := range columns {
			message.Values = append(message.Values, apiValue(t, c.Name, row[c.Name]))
		}
		w.Merge(&reader.read(message).Sum)
	}
	total := &pillionv1.Window{}
	if err := protojson.Unmarshal(f.Total, total); err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, p := range w.object("s", &line{}) {
		got[p.key] = p.value
	}
	for key, want := range map[string]any{
		"packets": total.Packets, "expected": total.Expected, "lost": total.Lost, "loss_percent": 100 * (float64(total.Lost) / float64(total.Expected)),
		"delay_p50_ns": total.Delay.P50Ns, "delay_p90_ns": total.Delay.P90Ns, "delay_p99_ns": total.Delay.P99Ns,
		"ipdv_p90_ns": total.Ipdv.P90Ns, "clock_error_ns": total.ClockErrorNs,
	} {
		if got[key] != want {
			t.Errorf("%s: got %v, want %v", key, got[key], want)
		}
	}
}

// apiValue is a value of the golden rows as the API sends it.
func apiValue(t *testing.T, column string, value any) *pillionv1.Value {
	t.Helper()
	integer := func(v any) int64 {
		n, err := v.(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	switch v := value.(type) {
	case string:
		return textValue(v)
	case []any:
		var list []int64
		for _, n := range v {
			list = append(list, integer(n))
		}
		return listValue(list...)
	case json.Number:
		if column == "time" {
			return timeValue(time.Unix(0, integer(v)))
		}
		return intValue(integer(v))
	}
	return &pillionv1.Value{}
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
			values := map[string]*pillionv1.Value{"time": {Kind: &pillionv1.Value_Time{Time: at}}, "interval_ns": intValue(interval), "packets": {Kind: &pillionv1.Value_Uint{Uint: packets}},
				"delay_count": intValue(count), "delay_min_ns": intValue(bound), "delay_bounds_ns": listValue(bound, bound), "delay_counts": listValue(count)}
			var columns []*pillionv1.Column
			row := &pillionv1.Row{}
			for name, value := range values {
				columns, row.Values = append(columns, &pillionv1.Column{Name: name}), append(row.Values, value)
			}
			if err := l.take(newFlowReader(columns).read(row)); err != nil {
				t.Fatal(err)
			}
			at += interval
		}
		for _, to := range l.sorted() {
			to.now.cells()
		}
	})
}

func TestLinesExpire(t *testing.T) {
	w := newWatching(t)
	closed := 0
	w.lines.closed = func(*line, *window) error { closed++; return nil }
	row := func(source string, second int64) *flows.Row {
		r := delayRow(second, 7_000)
		r.Source = source
		return r
	}
	if err := w.lines.take(row("ended", 1)); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		second int64
		lines  int
	}{{1, 2}, {4, 2}, {1 + expired, 2}, {2 + expired, 1}} {
		if err := w.lines.take(row("here", step.second)); err != nil {
			t.Fatal(err)
		}
		if err := w.lines.expire(); err != nil {
			t.Fatal(err)
		}
		if want := i + 2 - step.lines; len(w.lines.all) != step.lines || closed != want {
			t.Errorf("second %d: %d lines, want %d; %d windows closed, want %d", step.second, len(w.lines.all), step.lines, closed, want)
		}
	}
}
