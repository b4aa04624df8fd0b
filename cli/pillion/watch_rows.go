package pillion

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/api/pillionv1"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// expired is how many intervals a line may be behind the latest.
const expired = 60

// flowColumns are the columns of flows that a watch reads.
var flowColumns = []string{
	"time", "agent", "source", "src", "dst", "proto", "sport", "dport", "interval_ns", "packets", "expected", "lost",
	"delay_count", "delay_min_ns", "delay_mean_ns", "delay_max_ns", "delay_bounds_ns", "delay_counts", "delay_offsets_ns",
	"ipdv_count", "ipdv_min_ns", "ipdv_mean_ns", "ipdv_max_ns", "ipdv_bounds_ns", "ipdv_counts",
	"clock_error_ns", "source_clock_error_ns",
}

// flowReader reads rows of flows from messages.
type flowReader struct {
	types   []measure.Type // by column
	scanner *flows.Scanner
}

func newFlowReader(columns []*pillionv1.Column) *flowReader {
	r := &flowReader{}
	var names []string
	for _, c := range columns {
		kind := measure.String // the archive's own column
		if i := measure.Flows.Index(c.GetName()); i >= 0 {
			kind = measure.Flows.Fields[i].Type
		}
		names, r.types = append(names, c.GetName()), append(r.types, kind)
	}
	r.scanner = flows.NewScanner(names)
	return r
}

// read returns a row that is valid until the next call.
func (r *flowReader) read(row *pillionv1.Row) *flows.Row {
	return r.scanner.Scan(func(i int) measure.Value {
		if i >= len(row.GetValues()) {
			return measure.Value{}
		}
		return typedValue(r.types[i], row.Values[i])
	})
}

// typedValue converts a value of the API to one of a stream; null if the type differs.
func typedValue(t measure.Type, v *pillionv1.Value) measure.Value {
	number := uint64(0)
	switch k := v.GetKind().(type) {
	case *pillionv1.Value_Text:
		return measure.StringValue(k.Text)
	case *pillionv1.Value_Time:
		return measure.TimeValue(time.Unix(0, k.Time))
	case *pillionv1.Value_List:
		list := measure.Int64ListValue(k.List.GetValues())
		if t == measure.Uint64List {
			return measure.Uint64ListValue(list.List())
		}
		return list
	case *pillionv1.Value_Int:
		number = uint64(k.Int)
	case *pillionv1.Value_Uint:
		number = k.Uint
	default:
		return measure.Value{}
	}
	switch t {
	case measure.Uint32:
		return measure.Uint32Value(uint32(number))
	case measure.Uint64:
		return measure.Uint64Value(number)
	}
	return measure.Int64Value(int64(number))
}

// flowName names a flow by its known fields.
func flowName(f flows.Flow) string {
	end := func(address string, port uint32) string {
		if address = cmp.Or(address, "*"); port != 0 {
			return net.JoinHostPort(address, strconv.Itoa(int(port)))
		}
		return address
	}
	return strings.TrimSuffix(end(f.Src, f.Sport)+" > "+end(f.Dst, f.Dport)+" "+f.Proto, " ")
}

// window is the sum of the rows of one line in one interval.
type window struct {
	end, interval int64
	flows.Sum
	// corrected is nil if delays are shown as measured.
	corrected *correction
}

// shown are the delays to show, with the error bound of the clocks.
func (w *window) shown() (delay *flows.Distribution, bound float64) {
	if w.corrected != nil {
		return &w.corrected.Distribution, w.corrected.bound
	}
	return &w.Delay, w.ClockError.Float()
}

// rate returns packets per second.
func (w *window) rate() float64 {
	if w.interval <= 0 {
		return math.NaN()
	}
	return float64(w.Packets) / (float64(w.interval) / 1e9)
}

// line is what is printed of a pair or flow.
type line struct {
	source, destination, flow string
	now                       *window
}

// lines have the latest interval of each pair or flow, by key.
type lines struct {
	byFlow bool
	all    map[string]*line
	newest int64 // end of the latest window of all
	// clocks are the estimates to correct by; nil: delays are shown as measured.
	clocks clockPairs
	// closed receives each completed interval.
	closed func(*line, *window) error
}

// take adds a row to its line.
func (l *lines) take(row *flows.Row) error {
	if row.End.IsZero() {
		return nil
	}
	end, interval := row.End.UnixNano(), int64(row.Interval)
	l.newest = max(l.newest, end)
	to := &line{source: cmp.Or(row.Source, "?"), destination: row.Destination}
	if l.byFlow {
		to.flow = flowName(row.Flow)
	}
	key := to.source + "\x00" + to.destination + "\x00" + to.flow
	if known := l.all[key]; known != nil {
		to = known
	}
	l.all[key] = to
	if to.now == nil || end-to.now.end >= max(interval, 1)/2 {
		if err := l.close(to); err != nil {
			return err
		}
		to.now = &window{end: end, interval: interval}
		if l.clocks != nil {
			to.now.corrected = &correction{bound: math.NaN()}
		}
	}
	to.now.Merge(&row.Sum)
	if to.now.corrected != nil {
		to.now.corrected.add(row, l.clocks)
	}
	return nil
}

// close ends the line's window.
func (l *lines) close(to *line) error {
	w := to.now
	if w == nil {
		return nil
	}
	to.now = nil
	return l.closed(to, w)
}

// flush closes all windows, and drops their lines.
func (l *lines) flush() error {
	for _, to := range l.sorted() {
		if err := l.close(to); err != nil {
			return err
		}
	}
	clear(l.all)
	return nil
}

// expire closes and drops lines without rows in the last intervals: flows are short-lived.
func (l *lines) expire() error {
	for key, to := range l.all {
		if w := to.now; w == nil || w.interval <= 0 || (l.newest-w.end)/w.interval <= expired {
			continue
		}
		delete(l.all, key)
		if err := l.close(to); err != nil {
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

// cells returns a window's values, in the order of the live table's columns.
func (w *window) cells() (rate, loss, p50, p90, p99, clock, ipdv cell) {
	delay, bound := w.shown()
	return decimal(w.rate(), 1), percent(w.Lost, w.Expected), delayCell(delay.Quantile(0.5)), delayCell(delay.Quantile(0.9)), delayCell(delay.Quantile(0.99)), clockCell(delay.Count, bound), delayCell(w.IPDV.Quantile(0.9))
}

func decimal(v float64, places int) cell {
	if math.IsNaN(v) {
		return cell{shown: "-", plain: ""}
	}
	s := fmt.Sprintf("%.*f", places, v)
	return cell{shown: s, plain: s}
}

// object returns the window of a line for JSON.
func (w *window) object(session string, to *line) object {
	o := object{{"time", nanoTime(w.end)}, {"session", session}, {"source", to.source}, {"destination", to.destination}}
	if to.flow != "" {
		o = append(o, pair{"flow", to.flow})
	}
	o = append(o,
		pair{"interval_ns", w.interval}, pair{"packets", w.Packets}, pair{"packets_per_s", finite(w.rate())},
		pair{"expected", w.Expected}, pair{"lost", w.Lost}, pair{"loss_percent", finite(100 * w.Loss())},
		pair{"delay_count", w.Delay.Count},
		pair{"delay_p50_ns", finite(w.Delay.Quantile(0.5))}, pair{"delay_p90_ns", finite(w.Delay.Quantile(0.9))},
		pair{"delay_p99_ns", finite(w.Delay.Quantile(0.99))}, pair{"clock_error_ns", finite(w.ClockError.Float())},
		pair{"ipdv_p90_ns", finite(w.IPDV.Quantile(0.9))})
	if w.corrected != nil {
		o = append(o, w.corrected.fields()...)
	}
	return o
}
