package duckdb

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
	"pillion.dev/measure/measuretest"
)

type flowRow = measuretest.Fields

// flowBatch is a batch of rows of the stream flows.
func flowBatch(t testing.TB, agent string, sequence uint64, rows ...flowRow) archive.Batch {
	t.Helper()
	return rowBatch(t, &measure.Flows, agent, sequence, rows...)
}

// rowBatch is a batch of rows of a stream.
func rowBatch(t testing.TB, schema *measure.Schema, agent string, sequence uint64, rows ...measuretest.Fields) archive.Batch {
	t.Helper()
	return archive.Batch{Agent: agent, Key: measure.Key{Stream: schema.Name, Sequence: sequence}, Schema: schema, Record: measuretest.Record(t, schema, rows...)}
}

func TestWindowsOfNothing(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	question := archive.Windows{From: epoch, To: epoch.Add(15 * time.Minute), Points: 300}
	answer, err := a.Windows(t.Context(), question)
	if err != nil || len(answer.Windows) != 0 || answer.Step != 5*time.Second || answer.Sampled != 1 {
		t.Errorf("got %+v, %v", answer, err)
	}
	store(t, a, flowBatch(t, "b", 0, flowRow{"time": epoch, "source": "a", "interval_ns": time.Second, "packets": 7, "delay_count": 7,
		"delay_p50_ns": 5, "delay_bounds_ns": []int64{0}, "delay_counts": []uint64{7}}))
	question.From = epoch.Add(-time.Minute)
	answer, err = a.Windows(t.Context(), question)
	if err != nil || len(answer.Windows) != 1 {
		t.Errorf("got %+v, %v", answer, err)
	}
	for _, granularity := range []string{"flow", "host-port", "host", "pair"} {
		for _, order := range []string{"packets", "bytes", "lost", "p50", "p90", "p99", "max", "last"} {
			flows, err := a.Flows(t.Context(), archive.Flows{From: question.From, To: question.To, Granularity: granularity, Order: order, Limit: 10, Search: ">"})
			if err != nil || len(flows.Flows) != 1 || flows.Found != 1 || flows.Flows[0].Packets != 7 {
				t.Errorf("%s by %s: got %+v, %v", granularity, order, flows, err)
			}
		}
	}
}

// second is a row of one second with one bucket; its columns of quantiles differ from
// those of the histogram, which take precedence.
func second(end float64, session, source string, packets int, bound int64) flowRow {
	return flowRow{
		"time": epoch.Add(time.Duration(end * 1e9)), "session": session, "source": source, "interval_ns": time.Second, "packets": packets,
		"bytes": 100 * packets, "expected": packets + 1, "lost": 1, "duplicated": 2, "reordered": 3, "late": 4,
		"delay_count": packets, "delay_min_ns": 7, "delay_mean_ns": bound, "delay_p50_ns": 111, "delay_p90_ns": 222, "delay_p99_ns": 333, "delay_max_ns": 1 << 40,
		"ipdv_count": packets, "ipdv_min_ns": -packets, "ipdv_mean_ns": 0, "ipdv_p50_ns": packets, "ipdv_p90_ns": packets, "ipdv_p99_ns": packets, "ipdv_max_ns": packets,
		"delay_bounds_ns": []int64{bound}, "delay_counts": []uint64{uint64(packets)},
		"ipdv_bounds_ns": []int64{int64(packets)}, "ipdv_counts": []uint64{uint64(packets)}, "clock_error_ns": packets, "source_clock_error_ns": 1,
		"src": "192.0.2.1", "dst": "2001:db8::1", "proto": "udp", "sport": 7, "dport": 53,
	}
}

func flowArchive(t testing.TB, agent string, rows ...flowRow) *Archive {
	t.Helper()
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	if _, rejected := store(t, a, flowBatch(t, agent, 0, rows...)); len(rejected) > 0 {
		t.Fatal(rejected)
	}
	return a
}

func windows(t testing.TB, a *Archive, question archive.Windows) archive.WindowsAnswer {
	t.Helper()
	answer, err := a.Windows(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// starts formats the windows as start:packets.
func starts(answer archive.WindowsAnswer) string {
	text := ""
	for _, w := range answer.Windows {
		text += fmt.Sprintf("%v:%d ", w.Start.Sub(epoch).Seconds(), w.Packets)
	}
	return strings.TrimSpace(text)
}

// TestWindow: all figures of a window, computed by hand.
func TestWindow(t *testing.T) {
	a := flowArchive(t, "b", second(1, "s", "a", 10, 1024), second(2, "s", "a", 30, 4096), second(6, "s", "a", 5, 2048))
	question := archive.Windows{From: epoch, To: epoch.Add(10 * time.Second), Points: 2}
	answer := windows(t, a, question)
	if len(answer.Windows) != 2 || answer.Step != 5*time.Second || !slices.Equal(answer.Sessions, []string{"s"}) {
		t.Fatalf("got %+v", answer)
	}
	want := archive.Window{Start: epoch, Sum: flows.Sum{
		Counts:     flows.Counts{Packets: 40, Bytes: 4000, Expected: 42, Lost: 2, Duplicated: 4, Reordered: 6, Late: 8},
		ClockError: flows.BoundOf(31),
		Delay:      flows.NewDistribution(40, 7, (10*1024+30*4096)/40, 1<<40, histogram.Histogram{Bounds: []int64{1024, 4096}, Counts: []uint64{10, 30}}),
		IPDV:       flows.NewDistribution(40, -30, 0, 30, histogram.Histogram{Bounds: []int64{10, 30}, Counts: []uint64{10, 30}}),
	}}
	if got := answer.Windows[0]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// The value of rank 20 of 40 is the 10th of 30 in [4096, 4224).
	if d := &answer.Windows[0].Delay; d.Quantile(0.5) != 4136 || d.Quantile(0.99) != 4221 || answer.Windows[0].IPDV.Quantile(0.5) != 30 {
		t.Errorf("several rows: got %v, %v", d.Quantile(0.5), d.Quantile(0.99))
	}
	if d := &answer.Windows[1].Delay; d.Quantile(0.5) != 2080 || d.Quantile(0.99) != 2105 {
		t.Errorf("one row: got %v, %v", d.Quantile(0.5), d.Quantile(0.99))
	}
}

func TestWindowsOfTime(t *testing.T) {
	long := func(end float64, seconds, packets int) flowRow {
		r := second(end, "s", "a", packets, 1024)
		r["interval_ns"] = time.Duration(seconds) * time.Second
		return r
	}
	hundredth := func(end float64) flowRow {
		r := second(end, "s", "a", 1, 1024)
		r["interval_ns"] = 100 * time.Millisecond
		return r
	}
	var day []flowRow
	for i := range 200 {
		day = append(day, second(float64(i)+1.001, "s", "a", 1, 1024))
	}
	tests := []struct {
		name     string
		rows     []flowRow
		from, to float64
		points   int
		step     time.Duration
		want     string
	}{
		{"a row ends after its window", []flowRow{second(1.4, "s", "a", 1, 1024), second(1.6, "s", "a", 2, 1024)}, 0, 3, 3, time.Second, "0:1 1:2"},
		{"ends of the range", []flowRow{second(0.4, "s", "a", 1, 1024), second(0.5, "s", "a", 2, 1024), second(3.4, "s", "a", 4, 1024), second(3.5, "s", "a", 8, 1024)}, 0, 3, 3, time.Second, "0:2 2:4"},
		{"whole windows at both ends", day[:10], 1.5, 8.5, 2, 5 * time.Second, "0:5 5:5"},
		{"rows longer than asked for", []flowRow{long(30, 30, 1), long(60, 30, 2)}, 0, 60, 60, 30 * time.Second, "10:1 40:2"},
		{"one row came out longer", append(slices.Clone(day), long(202, 2, 1)), 0, 300, 300, time.Second, ""},
		{"many did", append(slices.Clone(day[:20]), long(22, 2, 1), long(24, 2, 1), long(26, 2, 1)), 0, 100, 100, 2 * time.Second, ""},
		{"rows of a tenth", []flowRow{hundredth(0.1), hundredth(0.2), hundredth(0.3)}, 0, 1, 10, 100 * time.Millisecond, "0:1 0.1:1 0.2:1"},
		{"fewer points than rows", []flowRow{hundredth(0.1), hundredth(0.2), hundredth(0.3)}, 0, 1, 5, 200 * time.Millisecond, "0:2 0.2:1"},
		{"months", day, -86400 * 60, 86400 * 30, 10, 9 * 24 * time.Hour, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := flowArchive(t, "b", test.rows...)
			answer := windows(t, a, archive.Windows{From: epoch.Add(time.Duration(test.from * 1e9)), To: epoch.Add(time.Duration(test.to * 1e9)), Points: test.points})
			if got := starts(answer); answer.Step != test.step || test.want != "" && got != test.want {
				t.Errorf("got %s, steps of %v; want %s of %v", got, answer.Step, test.want, test.step)
			}
			packets, sum := 0, uint64(0)
			for _, w := range answer.Windows {
				sum += w.Packets
				if w.Start.UnixNano()%int64(answer.Step) != 0 {
					t.Errorf("a window starts at %v", w.Start)
				}
			}
			for _, r := range test.rows {
				packets += r["packets"].(int)
			}
			if test.name != "ends of the range" && sum != uint64(packets) {
				t.Errorf("%d packets, want %d", sum, packets)
			}
		})
	}
}

// TestWindowsSampled: sums stay exact, quantiles close.
func TestWindowsSampled(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	batch := longBatch(t, 0, 0, 4000)
	store(t, a, batch)
	question := archive.Windows{From: epoch, To: epoch.Add(4000 * time.Second), Points: 4}
	all := windows(t, a, question)
	question.Sample = 400
	some := windows(t, a, question)
	again := windows(t, a, question)
	if all.Sampled != 1 || some.Sampled != 10 || len(some.Windows) != len(all.Windows) || fmt.Sprint(some) != fmt.Sprint(again) {
		t.Fatalf("one in %d of %d windows, one in %d of %d", all.Sampled, len(all.Windows), some.Sampled, len(some.Windows))
	}
	for i, w := range some.Windows {
		whole := all.Windows[i]
		if w.Packets != whole.Packets || w.Lost != whole.Lost || w.Delay.Count != whole.Delay.Count || w.Delay.Max != whole.Delay.Max || w.Delay.Total != whole.Delay.Total {
			t.Errorf("sums differ: %+v, %+v", w, whole)
		}
		if math.Abs(w.Delay.Quantile(0.5)/whole.Delay.Quantile(0.5)-1) > 0.05 || math.Abs(w.Delay.Quantile(0.99)/whole.Delay.Quantile(0.99)-1) > 0.05 {
			t.Errorf("quantiles differ: %+v, %+v", w.Delay, whole.Delay)
		}
	}
	question.Sample = 1 // few rows, but one of each window
	for _, w := range windows(t, a, question).Windows {
		if math.IsNaN(w.Delay.Quantile(0.5)) {
			t.Errorf("no quantiles: %+v", w)
		}
	}
}

// TestWindowsOfGarbage: invalid rows do no harm.
func TestWindowsOfGarbage(t *testing.T) {
	most := uint64(math.MaxUint64)
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	for i, row := range []flowRow{
		{"time": epoch},
		{"time": epoch, "interval_ns": int64(math.MinInt64), "packets": most, "bytes": most, "expected": most, "delay_count": most, "delay_mean_ns": int64(math.MaxInt64)},
		{"time": epoch, "interval_ns": int64(math.MaxInt64), "packets": most, "bytes": most, "delay_count": most, "delay_mean_ns": int64(math.MinInt64)},
		{"time": epoch, "packets": 1, "delay_count": 1, "delay_p50_ns": -5, "delay_min_ns": -9, "delay_max_ns": -1, "delay_bounds_ns": []int64{-8, 3, 4}, "delay_counts": []uint64{most}},
		{"time": epoch, "packets": 1, "delay_count": 0, "delay_p50_ns": -5, "delay_bounds_ns": []int64{}, "delay_counts": []uint64{most, 1}},
		{"time": epoch, "delay_bounds_ns": []int64{math.MinInt64, math.MaxInt64}, "delay_counts": []uint64{most, 0}, "clock_error_ns": int64(math.MinInt64), "source_clock_error_ns": int64(math.MinInt64)},
		{"time": time.Unix(0, math.MinInt64), "interval_ns": time.Hour, "packets": 1}, {"time": time.Unix(0, math.MaxInt64), "packets": 1},
		{"time": time.Unix(-1<<32, 0), "packets": 1}, {"time": time.Unix(1<<33, 0), "packets": 1},
	} {
		if _, rejected := store(t, a, flowBatch(t, "b", uint64(i), row)); rejected[0] != nil {
			t.Logf("%v: %v", row, rejected[0])
		}
	}
	if n := count(t, a, "SELECT count(*) FROM flows"); n < 8 {
		t.Errorf("%d rows", n)
	}
	for _, points := range []int{1, 7, 4000} {
		for _, span := range []time.Duration{time.Second, time.Hour, 50 * 365 * 24 * time.Hour} {
			answer := windows(t, a, archive.Windows{From: epoch.Add(-span), To: epoch.Add(span), Points: points})
			for _, w := range answer.Windows {
				if d := &w.Delay; d.Quantile(0.5) < float64(d.Min) || d.Quantile(0.99) > float64(d.Max) || w.ClockError.Ns < 0 {
					t.Errorf("got %+v", w)
				}
			}
			if len(answer.Windows) == 0 && span > time.Second {
				t.Error("no windows")
			}
		}
	}
	for _, question := range []archive.Windows{
		{}, {From: epoch, To: epoch, Points: 1}, {From: epoch, To: epoch.Add(1), Points: 0}, {From: epoch, To: epoch.Add(time.Hour), Points: 1 << 40},
		{From: epoch, To: epoch.Add(time.Hour), Step: 1},
	} {
		if _, err := a.Windows(t.Context(), question); !errors.Is(err, archive.ErrQuery) {
			t.Errorf("%+v: %v", question, err)
		}
	}
}

// TestOddTexts: texts of a question are no SQL.
func TestOddTexts(t *testing.T) {
	odd := []string{"a'", `a"`, `a\`, "a' OR '1'='1", "a?", "ä", "a\n--"}
	var rows []flowRow
	for _, source := range odd {
		rows = append(rows, second(1, "s", source, 1, 1024))
	}
	a := flowArchive(t, "b", rows...)
	for _, source := range append(odd, "a", "a'\x00", "") {
		answer := windows(t, a, archive.Windows{Selection: archive.Selection{Source: source}, From: epoch, To: epoch.Add(10 * time.Second), Points: 1})
		want := map[bool]string{true: "0:1"}[slices.Contains(odd, source)]
		if source == "" {
			want = fmt.Sprintf("0:%d", len(odd))
		}
		if got := starts(answer); got != want {
			t.Errorf("%q: got %s, want %s", source, got, want)
		}
	}
}
