package live

import (
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/measuretest"
)

var epoch = time.Unix(1_700_000_000, 0).UTC()

// at is a number of seconds after epoch.
func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * 1e9)) }

type row = measuretest.Fields

// measured is a row of one second with delays; its columns of quantiles differ from
// those of its histogram, which take precedence.
func measured(end float64, session, source string, packets int, bounds ...int64) row {
	counts := make([]uint64, len(bounds))
	for i := range counts {
		counts[i] = uint64(packets / len(bounds))
	}
	return row{
		"time": at(end), "session": session, "source": source, "interval_ns": time.Second, "packets": packets, "bytes": 100 * packets,
		"expected": packets + 1, "lost": 1, "delay_count": packets, "delay_min_ns": 1000, "delay_mean_ns": 2000, "delay_p50_ns": 111,
		"delay_p90_ns": 222, "delay_p99_ns": 333, "delay_max_ns": 50_000_000, "delay_bounds_ns": bounds, "delay_counts": counts,
		"clock_error_ns": 10, "source_clock_error_ns": 20,
	}
}

func batchOf(t testing.TB, agent string, rows ...row) archive.Batch {
	t.Helper()
	return archive.Batch{Agent: agent, Key: measure.Key{Stream: measure.Flows.Name}, Schema: &measure.Flows, Record: measuretest.Record(t, &measure.Flows, rows...)}
}

// garbage returns invalid rows.
func garbage() []row {
	return []row{
		{}, {"time": at(1)}, {"time": at(1), "source": "a"},
		{"time": at(1), "source": "a", "session": "\xff\xfe", "interval_ns": int64(math.MinInt64), "packets": uint64(math.MaxUint64)},
		{"time": at(1), "source": "a", "interval_ns": int64(math.MaxInt64), "packets": uint64(math.MaxUint64), "bytes": uint64(math.MaxUint64), "expected": uint64(math.MaxUint64)},
		{"time": at(1), "source": "a", "delay_bounds_ns": []int64{1, 2, 3}, "delay_counts": []uint64{1}, "delay_p50_ns": int64(math.MinInt64)},
		{"time": at(1), "source": "a", "delay_bounds_ns": []int64{math.MinInt64, -1, math.MaxInt64}, "delay_counts": []uint64{math.MaxUint64, math.MaxUint64, 0}},
		{"time": at(1), "source": "a", "delay_bounds_ns": []int64{5, 4, 4}, "delay_counts": []uint64{1, 1, 1}, "clock_error_ns": int64(math.MaxInt64), "source_clock_error_ns": int64(math.MaxInt64)},
		{"time": time.Unix(0, math.MaxInt64), "source": "a", "packets": 1}, {"time": time.Unix(0, math.MinInt64), "source": "a", "packets": 1, "interval_ns": time.Hour},
		{"time": at(1), "source": "a", "delay_count": 0, "delay_mean_ns": int64(math.MaxInt64), "ipdv_p50_ns": -5},
	}
}

// broken is a batch whose lists point beyond their values, and whose schema has
// columns of other types.
func broken(agent string) archive.Batch {
	values := array.NewInt64Builder(memory.DefaultAllocator)
	values.Append(1)
	counts := array.NewUint64Builder(memory.DefaultAllocator)
	counts.Append(1)
	offsets := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, 1 << 20}))
	list := func(kind arrow.DataType, inner arrow.Array) arrow.Array {
		return array.NewListData(array.NewData(arrow.ListOf(kind), 1, []*memory.Buffer{nil, offsets}, []arrow.ArrayData{inner.Data()}, 0, 0))
	}
	times := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Nanosecond})
	times.Append(arrow.Timestamp(at(1).UnixNano()))
	sources := array.NewStringBuilder(memory.DefaultAllocator)
	sources.Append("a")
	text := sources.NewArray()
	columns := []arrow.Array{times.NewArray(), text, text, list(arrow.PrimitiveTypes.Int64, values.NewArray()), list(arrow.PrimitiveTypes.Uint64, counts.NewArray())}
	schema := &measure.Schema{Name: "flows", Fields: []measure.Field{measure.TimeField, {Name: "source", Type: measure.String},
		{Name: "packets", Type: measure.String}, {Name: "delay_bounds_ns", Type: measure.Int64List}, {Name: "delay_counts", Type: measure.Uint64List}}}
	var fields []arrow.Field
	for i, column := range columns {
		fields = append(fields, arrow.Field{Name: schema.Fields[i].Name, Type: column.DataType()})
	}
	return archive.Batch{Agent: agent, Key: measure.Key{Stream: "flows"}, Schema: schema, Record: array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, -1)}
}

// TestGarbage: no invalid row ends a watch or yields inconsistent figures.
func TestGarbage(t *testing.T) {
	p := NewPairs(10, func() time.Time { return at(3) }, slog.New(slog.DiscardHandler))
	w := NewWatch(archive.Selection{Source: "a", Destination: "b"}, 0)
	for _, r := range garbage() {
		for _, batch := range []archive.Batch{batchOf(t, "b", r), batchOf(t, "b", measured(1, "", "a", 4, 1024), r), broken("b")} {
			_ = p.add(batch, at(1.5)) // may fail
			_ = w.Add(batch, at(1.5))
			for _, window := range w.Changed() {
				d := window.Delay
				if p50, p99 := d.Quantile(0.5), d.Quantile(0.99); p50 < float64(d.Min) || p50 > float64(d.Max) || p99 < p50 {
					t.Errorf("%v: %+v", r, d)
				}
			}
		}
	}
	p.publish(at(3))
	if _, _, err := p.Reader(Scope{}, 60).Next(); err != nil {
		t.Error(err)
	}
}

// FuzzRow: no row ends a watch.
func FuzzRow(f *testing.F) {
	f.Add(int64(1), int64(1e9), uint64(1), uint64(1), int64(1), int64(5), uint64(1), "s")
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), uint64(math.MaxUint64), uint64(0), int64(math.MinInt64), int64(-1), uint64(math.MaxUint64), "\xff")
	f.Fuzz(func(t *testing.T, end, interval int64, packets, count uint64, delay, bound int64, n uint64, session string) {
		p := NewPairs(10, func() time.Time { return time.Unix(0, end).Add(time.Second) }, slog.New(slog.DiscardHandler))
		w := NewWatch(archive.Selection{Source: "a", Destination: "b"}, 0)
		r := row{"time": time.Unix(0, end), "source": "a", "session": session, "interval_ns": interval, "packets": packets, "bytes": packets, "delay_count": count,
			"delay_min_ns": delay, "delay_mean_ns": delay, "delay_p50_ns": delay, "delay_max_ns": delay, "ipdv_p50_ns": delay, "clock_error_ns": delay,
			"source_clock_error_ns": delay, "delay_bounds_ns": []int64{bound, delay}, "delay_counts": []uint64{n, count}}
		batch := batchOf(t, "b", r, r)
		if err := p.add(batch, p.now()); err != nil {
			t.Error(err)
		}
		p.publish(p.now().Add(2 * time.Second))
		if err := w.Add(batch, p.now()); err != nil {
			t.Error(err)
		}
		if changed := w.Changed(); len(changed) != 1 {
			t.Errorf("%d windows", len(changed))
		}
	})
}
