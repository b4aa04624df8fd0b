package flows_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
	"pillion.dev/measure/measuretest"
)

// full has every field.
func full() flows.Row {
	h := func(values ...int64) (h histogram.Histogram) {
		for _, v := range values {
			h.Add(v)
		}
		return h
	}
	ipdv := h(-4_000, 2_000_000)
	ipdv.Offsets = nil // the stream has none
	r := flows.Row{
		End: time.Unix(1_700_000_000, 5).UTC(), Interval: time.Second, Session: "s", Source: "a", Device: "eth0",
		Flow: flows.Flow{Src: "2001:db8::1", Dst: "2001:db8::2", Proto: "udp", Sport: 1, Dport: 53},
		Sum: flows.Sum{
			Counts: flows.Counts{Packets: 3, Bytes: 300, Expected: 5, Lost: 2, Duplicated: 1, Reordered: 1, Late: 1},
			Delay:  flows.NewDistribution(3, 1_000_000, 2_000_000, 3_000_000, h(1_000_000, 2_000_000, 3_000_000)),
			IPDV:   flows.NewDistribution(2, -4_000, 998_000, 2_000_000, ipdv), ClockError: flows.BoundOf(30),
		},
		DestinationClock: flows.BoundOf(10), SourceClock: flows.BoundOf(20),
	}
	return r
}

// read copies the rows of a record.
func read(t testing.TB, r arrow.RecordBatch) (all []flows.Row) {
	t.Helper()
	for row, err := range flows.Rows("b", r) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, *row)
	}
	return all
}

// TestRoundTrip: a row is read from its record unchanged, field by field.
func TestRoundTrip(t *testing.T) {
	want := full()
	want.Destination = "b"
	empty := flows.Row{End: want.End, Destination: "b"}
	got := read(t, measuretest.Flows(t, full(), flows.Row{End: want.End}))
	for i, w := range []flows.Row{want, empty} {
		if len(got) != 2 || !equal(&got[i], &w) {
			t.Errorf("row %d:\ngot  %+v\nwant %+v", i, got[i], w)
		}
	}
}

// equal compares all fields of a row.
func equal(a, b *flows.Row) bool {
	x, y := a.Sample(measure.Sample{measure.StringValue(a.Destination)}), b.Sample(measure.Sample{measure.StringValue(b.Destination)})
	for i := range x {
		if x[i].Type() != y[i].Type() || x[i].Uint64() != y[i].Uint64() || x[i].Text() != y[i].Text() || string(bytesOf(x[i])) != string(bytesOf(y[i])) {
			return false
		}
	}
	return a.ClockError == b.ClockError
}

func bytesOf(v measure.Value) []byte { return arrow.Uint64Traits.CastToBytes(v.List()) }

// TestColumns: each column of the stream is written.
func TestColumns(t *testing.T) {
	r := full()
	for i, v := range r.Sample(nil) {
		if v.IsNull() || v.Type() != measure.Flows.Fields[i].Type {
			t.Errorf("column %s is %v", measure.Flows.Fields[i].Name, v.Type())
		}
	}
}

// TestMalformedRows: invalid values become null, the rest of the row is kept.
func TestMalformedRows(t *testing.T) {
	long := strings.Repeat("a\xff", 5000)
	rows := map[string]struct {
		values map[string]measure.Value
		right  func(*flows.Row) bool
	}{
		"mistyped":       {map[string]measure.Value{"packets": measure.StringValue("7"), "bytes": measure.Uint64Value(9)}, func(r *flows.Row) bool { return r.Packets == 0 && r.Bytes == 9 }},
		"unknown column": {map[string]measure.Value{"new": measure.BoolValue(true), "lost": measure.Uint64Value(1)}, func(r *flows.Row) bool { return r.Lost == 1 }},
		"long texts": {map[string]measure.Value{"source": measure.StringValue(long)}, func(r *flows.Row) bool {
			return len(r.Source) <= flows.TextMax && strings.HasPrefix(r.Source, "a\uFFFDa")
		}},
		"long interval":     {map[string]measure.Value{"interval_ns": measure.Int64Value(math.MaxInt64)}, func(r *flows.Row) bool { return r.Interval == flows.IntervalMax }},
		"negative interval": {map[string]measure.Value{"interval_ns": measure.Int64Value(math.MinInt64)}, func(r *flows.Row) bool { return r.Interval == 0 }},
		"clock below zero":  {map[string]measure.Value{"clock_error_ns": measure.Int64Value(-1), "source_clock_error_ns": measure.Int64Value(1)}, func(r *flows.Row) bool { return !r.ClockError.Known }},
		"one clock unknown": {map[string]measure.Value{"clock_error_ns": measure.Int64Value(1)}, func(r *flows.Row) bool { return !r.ClockError.Known }},
		"large clock errors": {map[string]measure.Value{"clock_error_ns": measure.Int64Value(math.MaxInt64), "source_clock_error_ns": measure.Int64Value(math.MaxInt64)},
			func(r *flows.Row) bool { return r.ClockError == flows.BoundOf(math.MaxInt64) }},
		"extremes swapped": {distribution(5, 9, 7, 3), func(r *flows.Row) bool { return r.Delay.Count == 0 }},
		"too many values":  {distribution(flows.CountMax+1, 1, 2, 3), func(r *flows.Row) bool { return r.Delay.Count == 0 }},
		"widest":           {distribution(flows.CountMax, math.MinInt64, math.MinInt64, math.MaxInt64), func(r *flows.Row) bool { _, mean, _ := r.Delay.Extremes(); return mean == math.MinInt64 }},
		"lists of two lengths": {with(distribution(5, 1, 2, 3), "delay_bounds_ns", measure.Int64ListValue([]int64{1, 2}), "delay_counts", measure.Uint64ListValue([]uint64{5})),
			func(r *flows.Row) bool {
				return r.Delay.Count == 5 && r.Delay.Histogram.Empty() && math.IsNaN(r.Delay.Quantile(0.5))
			}},
		"bounds descend": {with(distribution(5, 1, 2, 3), "delay_bounds_ns", measure.Int64ListValue([]int64{2, 1}), "delay_counts", measure.Uint64ListValue([]uint64{5, 5})),
			func(r *flows.Row) bool { return r.Delay.Histogram.Empty() }},
		"offsets of another length": {with(distribution(5, 1, 2, 3), "delay_bounds_ns", measure.Int64ListValue([]int64{1}), "delay_counts", measure.Uint64ListValue([]uint64{5}),
			"delay_offsets_ns", measure.Uint64ListValue([]uint64{})), func(r *flows.Row) bool { return r.Delay.Count == 5 }},
	}
	for name, test := range rows {
		t.Run(name, func(t *testing.T) {
			var names []string
			var values []measure.Value
			for column, value := range test.values {
				names, values = append(names, column), append(values, value)
			}
			row := flows.NewScanner(names).Scan(func(i int) measure.Value { return values[i] })
			var sum flows.Sum
			sum.Merge(&row.Sum)
			sum.Merge(&row.Sum)
			if !test.right(row) {
				t.Errorf("got %+v", row)
			}
		})
	}
}

func distribution(count uint64, least, mean, most int64) map[string]measure.Value {
	return map[string]measure.Value{"delay_count": measure.Uint64Value(count), "delay_min_ns": measure.Int64Value(least),
		"delay_mean_ns": measure.Int64Value(mean), "delay_max_ns": measure.Int64Value(most)}
}

func with(to map[string]measure.Value, more ...any) map[string]measure.Value {
	for i := 0; i < len(more); i += 2 {
		to[more[i].(string)] = more[i+1].(measure.Value)
	}
	return to
}

// TestDamagedRecord: invalid offsets are an error.
func TestDamagedRecord(t *testing.T) {
	times := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Nanosecond})
	times.Append(1)
	values := array.NewInt64Builder(memory.DefaultAllocator)
	values.Append(1)
	offsets := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, 1 << 20}))
	list := array.NewListData(array.NewData(arrow.ListOf(arrow.PrimitiveTypes.Int64), 1, []*memory.Buffer{nil, offsets}, []arrow.ArrayData{values.NewArray().Data()}, 0, 0))
	columns := []arrow.Array{times.NewArray(), list}
	schema := arrow.NewSchema([]arrow.Field{{Name: "time", Type: columns[0].DataType()}, {Name: "delay_bounds_ns", Type: list.DataType()}}, nil)
	for _, err := range flows.Rows("b", array.NewRecordBatch(schema, columns, 1)) {
		if err == nil {
			t.Error("read without an error")
		}
	}
}

// FuzzScan: any row can be read and summed, and quantiles are within the extremes.
func FuzzScan(f *testing.F) {
	f.Add(int64(1), int64(1e9), uint64(3), int64(1), int64(2), int64(3), int64(1), uint64(3), uint64(0), "s")
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), uint64(flows.CountMax), int64(math.MinInt64), int64(math.MinInt64), int64(math.MaxInt64), int64(-1), uint64(math.MaxUint64), uint64(math.MaxUint64), "\xff")
	names := []string{"time", "interval_ns", "delay_count", "delay_min_ns", "delay_mean_ns", "delay_max_ns", "delay_bounds_ns", "delay_counts", "delay_offsets_ns", "session"}
	f.Fuzz(func(t *testing.T, end, interval int64, count uint64, least, mean, most, bound int64, n, offset uint64, session string) {
		values := []measure.Value{measure.TimeValue(time.Unix(0, end)), measure.Int64Value(interval), measure.Uint64Value(count), measure.Int64Value(least),
			measure.Int64Value(mean), measure.Int64Value(most), measure.Int64ListValue([]int64{bound, least}), measure.Uint64ListValue([]uint64{n, count}),
			measure.Uint64ListValue([]uint64{offset, 0}), measure.StringValue(session)}
		row := flows.NewScanner(names).Scan(func(i int) measure.Value { return values[i] })
		var sum flows.Sum
		for range 3 {
			sum.Merge(&row.Sum)
		}
		for _, d := range []*flows.Distribution{&row.Delay, &sum.Delay} {
			for _, q := range []float64{0, 0.5, 1} {
				if v := d.Quantile(q); v < float64(d.Min) || v > float64(d.Max) {
					t.Errorf("quantile %v of %+v is %v", q, d, v)
				}
			}
		}
	})
}
