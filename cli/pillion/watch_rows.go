package pillion

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"

	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/quantity"
)

// historyMax is how many intervals a sparkline can show.
const historyMax = 60

// flowColumns are the columns of flows that a watch reads.
var flowColumns = []string{
	"time", "agent", "source", "src", "dst", "proto", "sport", "dport", "interval_ns", "packets", "expected", "lost",
	"delay_count", "delay_min_ns", "delay_max_ns", "delay_p50_ns", "delay_p90_ns", "delay_p99_ns", "ipdv_p90_ns",
	"clock_error_ns", "source_clock_error_ns", "delay_bounds_ns", "delay_counts",
}

// flowRow is a row of flows by the names of its columns; what is missing is null.
type flowRow map[string]*pillionv1.Value

func flowRowOf(columns []*pillionv1.Column, row *pillionv1.Row) flowRow {
	r := flowRow{}
	for i, c := range columns {
		if i < len(row.GetValues()) && row.Values[i].GetKind() != nil {
			r[c.GetName()] = row.Values[i]
		}
	}
	return r
}

// int is the number in a column, and whether there is one.
func (r flowRow) int(name string) (int64, bool) {
	switch k := r[name].GetKind().(type) {
	case *pillionv1.Value_Int:
		return k.Int, true
	case *pillionv1.Value_Uint:
		return int64(min(k.Uint, math.MaxInt64)), true
	case *pillionv1.Value_Time:
		return k.Time, true
	}
	return 0, false
}

func (r flowRow) text(name string) string { return valueCell(r[name], "").plain }

// flow names the flow of a row as far as its columns say it.
func (r flowRow) flow() string {
	end := func(address, port string) string {
		a, p := cmp.Or(r.text(address), "*"), r.text(port)
		if p == "" || p == "0" {
			return a
		}
		return net.JoinHostPort(a, p)
	}
	name := end("src", "sport") + " > " + end("dst", "dport")
	if proto := r.text("proto"); proto != "" {
		name += " " + proto
	}
	return name
}

// window is what came of one line in one interval.
type window struct {
	end, interval           int64
	packets, expected, lost int64
	// rows with a delay. Quantiles of several come from their histograms, so
	// they are at most 3.2 % low.
	rows          int
	min, max      int64
	p50, p90, p99 int64
	quantiles     bool
	buckets       map[int64]uint64
	whole         bool // every row had its histogram
	ipdv          int64
	hasIPDV       bool
	// clock bounds the error of both clocks together.
	clock      int64
	clockKnown bool
}

func newWindow(end, interval int64) *window {
	return &window{end: end, interval: interval, buckets: map[int64]uint64{}, whole: true, clockKnown: true}
}

func (w *window) add(r flowRow) {
	for name, sum := range map[string]*int64{"packets": &w.packets, "expected": &w.expected, "lost": &w.lost} {
		n, _ := r.int(name)
		*sum += n
	}
	if ipdv, ok := r.int("ipdv_p90_ns"); ok && (!w.hasIPDV || ipdv > w.ipdv) {
		w.ipdv, w.hasIPDV = ipdv, true
	}
	p50, ok := r.int("delay_p50_ns")
	if count, counted := r.int("delay_count"); !ok || counted && count == 0 {
		return
	}
	w.rows++
	w.addClock(r)
	least, _ := r.int("delay_min_ns")
	most, _ := r.int("delay_max_ns")
	if w.rows == 1 {
		w.min, w.max = least, most
	}
	w.min, w.max = min(w.min, least), max(w.max, most)
	bounds, counts := r["delay_bounds_ns"].GetList().GetValues(), r["delay_counts"].GetList().GetValues()
	w.whole = w.whole && len(bounds) > 0 && len(bounds) == len(counts)
	for i := range min(len(bounds), len(counts)) {
		w.buckets[bounds[i]] += uint64(max(0, counts[i]))
	}
	switch {
	case w.rows == 1:
		w.p50, w.quantiles = p50, true
		w.p90, _ = r.int("delay_p90_ns")
		w.p99, _ = r.int("delay_p99_ns")
	case w.whole:
		w.p50, w.p90, w.p99 = w.quantile(0.5), w.quantile(0.9), w.quantile(0.99)
	default:
		w.quantiles = false
	}
}

func (w *window) addClock(r flowRow) {
	here, ok := r.int("clock_error_ns")
	there, both := r.int("source_clock_error_ns")
	w.clockKnown = w.clockKnown && ok && both
	w.clock = max(w.clock, here+there)
}

// quantile is the value at that rank, within the extremes: a bucket's values are
// taken as spread evenly over its width, which is at most 1/32 of its lower bound
// (1/8 below zero).
func (w *window) quantile(q float64) int64 {
	var total uint64
	for _, n := range w.buckets {
		total += n
	}
	rank, below := uint64(math.Ceil(q*float64(total))), uint64(0)
	for _, bound := range slices.Sorted(maps.Keys(w.buckets)) {
		n := w.buckets[bound]
		if below+n >= rank {
			width := float64(bound) / 32
			if bound < 0 {
				width = float64(-bound) / 8
			}
			share := (float64(rank-below) - 0.5) / float64(n)
			return max(w.min, min(w.max, bound+int64(share*width)))
		}
		below += n
	}
	return w.max
}

// rate is packets a second.
func (w *window) rate() float64 {
	if w.interval <= 0 {
		return math.NaN()
	}
	return float64(w.packets) / (float64(w.interval) / 1e9)
}

// loss is lost packets in a hundred expected ones.
func (w *window) loss() float64 {
	if w.expected <= 0 {
		return math.NaN()
	}
	return 100 * float64(w.lost) / float64(w.expected)
}

// line is one row of the live table.
type line struct {
	source, destination, flow string
	now                       *window
	// history has the medians of past windows, NaN for one without.
	history []float64
}

// lines are the rows of the live table by key.
type lines struct {
	byFlow bool
	all    map[string]*line
	newest int64 // end of the latest window of all
	// closed receives each completed interval.
	closed func(*line, *window) error
}

// take adds a row to its line.
func (l *lines) take(r flowRow) error {
	end, ok := r.int("time")
	if !ok {
		return nil
	}
	interval, _ := r.int("interval_ns")
	l.newest = max(l.newest, end)
	to := &line{source: cmp.Or(r.text("source"), "?"), destination: r.text("agent")}
	if l.byFlow {
		to.flow = r.flow()
	}
	key := to.source + "\x00" + to.destination + "\x00" + to.flow
	if known := l.all[key]; known != nil {
		to = known
	}
	l.all[key] = to
	if to.now != nil && end-to.now.end < max(interval, 1)/2 {
		to.now.add(r)
		return nil
	}
	if err := l.close(to, end, interval); err != nil {
		return err
	}
	to.now = newWindow(end, interval)
	to.now.add(r)
	return nil
}

// close moves the line's window into its history; next is the end of the one
// after it.
func (l *lines) close(to *line, next, interval int64) error {
	w := to.now
	if w == nil {
		return nil
	}
	median := math.NaN()
	if w.quantiles {
		median = float64(w.p50)
	}
	to.history = append(to.history, median)
	if interval > 0 {
		for range min((next-w.end+interval/2)/interval-1, historyMax) {
			to.history = append(to.history, math.NaN())
		}
	}
	to.history = to.history[max(0, len(to.history)-historyMax):]
	to.now = nil
	return l.closed(to, w)
}

// flush closes the windows that ended before a time, and drops their lines: only a
// terminal needs the history, and there nothing is flushed.
func (l *lines) flush(before int64) error {
	for _, to := range l.sorted() {
		if to.now != nil && to.now.end < before {
			if err := l.close(to, 0, 0); err != nil {
				return err
			}
		}
	}
	maps.DeleteFunc(l.all, func(_ string, to *line) bool { return to.now == nil })
	return nil
}

// stale reports whether a line's window is so many intervals behind the latest.
func (l *lines) stale(w *window, intervals int64) bool {
	return w != nil && w.interval > 0 && (l.newest-w.end)/w.interval > intervals
}

// forget closes and drops lines of which nothing came for as long as a sparkline
// shows: flows come and go.
func (l *lines) forget() error {
	for key, to := range l.all {
		if !l.stale(to.now, historyMax) {
			continue
		}
		delete(l.all, key)
		if err := l.close(to, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

func (l *lines) sorted() []*line {
	return slices.SortedFunc(maps.Values(l.all), func(a, b *line) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.destination, b.destination), cmp.Compare(a.flow, b.flow))
	})
}

// cells are a window's values, in the order of the live table's columns.
func (w *window) cells() (rate, loss, p50, p90, p99, clock, ipdv cell) {
	rate = decimal(w.rate(), 1)
	loss = decimal(w.loss(), 2)
	if loss.plain != "" {
		loss.shown += " %"
	}
	none := cell{"-", ""}
	p50, p90, p99, clock, ipdv = none, none, none, none, none
	if w.rows > 0 {
		clock = cell{"±?", ""}
		if w.clockKnown {
			clock = cell{"±" + quantity.FormatNanos(w.clock), fmt.Sprint(w.clock)}
		}
	}
	if w.quantiles {
		p50, p90, p99 = nanos(w.p50), nanos(w.p90), nanos(w.p99)
	}
	if w.hasIPDV {
		ipdv = nanos(w.ipdv)
	}
	return rate, loss, p50, p90, p99, clock, ipdv
}

func decimal(v float64, places int) cell {
	if math.IsNaN(v) {
		return cell{"-", ""}
	}
	s := fmt.Sprintf("%.*f", places, v)
	return cell{s, s}
}

// object is the window of a line for JSON.
func (w *window) object(session string, to *line) object {
	o := object{{"time", nanoTime(w.end)}, {"session", session}, {"source", to.source}, {"destination", to.destination}}
	if to.flow != "" {
		o = append(o, pair{"flow", to.flow})
	}
	optional := func(v int64, is bool) any {
		if is {
			return v
		}
		return nil
	}
	return append(o,
		pair{"interval_ns", w.interval}, pair{"packets", w.packets}, pair{"packets_per_s", finite(w.rate())},
		pair{"expected", w.expected}, pair{"lost", w.lost}, pair{"loss_percent", finite(w.loss())},
		pair{"delay_p50_ns", optional(w.p50, w.quantiles)}, pair{"delay_p90_ns", optional(w.p90, w.quantiles)},
		pair{"delay_p99_ns", optional(w.p99, w.quantiles)}, pair{"clock_error_ns", optional(w.clock, w.clockKnown && w.rows > 0)},
		pair{"ipdv_p90_ns", optional(w.ipdv, w.hasIPDV)})
}
