package measure

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

var six = Schema{Name: "six", Fields: []Field{
	TimeField, {Name: "device", Type: String}, {Name: "sport", Type: Uint32},
	{Name: "bytes", Type: Uint64}, {Name: "delay_ns", Type: Int64}, {Name: "load", Type: Float64},
}}

func sixRow(n int) Sample {
	return Sample{
		TimeValue(time.Unix(0, int64(n))), StringValue("eth0"), Uint32Value(uint32(n)),
		Uint64Value(uint64(n)), Int64Value(int64(n)), Float64Value(float64(n)),
	}
}

// batches is a sink that keeps the numbers in the rows of each batch.
type batches struct {
	mu   sync.Mutex
	rows [][]int64
	err  error
}

func (b *batches) sink(schema *Schema, record arrow.RecordBatch) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	row := make(Sample, len(schema.Fields))
	var numbers []int64
	for i := range int(record.NumRows()) {
		if err := readRow(record, i, row); err != nil {
			return err
		}
		numbers = append(numbers, row[0].Int64())
	}
	b.rows = append(b.rows, numbers)
	return b.err
}

func (b *batches) sizes() (sizes []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, rows := range b.rows {
		sizes = append(sizes, len(rows))
	}
	return sizes
}

func newStream(t testing.TB, schema *Schema, options StreamOptions, sink BatchSink) *Stream {
	t.Helper()
	s, err := NewStream(schema, options, sink)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStreamCuts(t *testing.T) {
	size := rowSize(&six, sixRow(0))
	for name, c := range map[string]struct {
		options StreamOptions
		rows    int
		want    []int
	}{
		"by rows":       {StreamOptions{Rows: 4}, 10, []int{4, 4, 2}},
		"by bytes":      {StreamOptions{Bytes: 3*size + 1}, 7, []int{3, 3, 1}},
		"bytes to fill": {StreamOptions{Bytes: 3 * size}, 7, []int{3, 3, 1}},
		"one by one":    {StreamOptions{Rows: 1}, 3, []int{1, 1, 1}},
		"no row":        {StreamOptions{}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var b batches
			s := newStream(t, &six, c.options, b.sink)
			for i := range c.rows {
				if err := s.Append(sixRow(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			if got := b.sizes(); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("batches of %v rows, want %v", got, c.want)
			}
			if n := s.Counts(); n.Rows != uint64(c.rows) || n.Batches != uint64(len(c.want)) {
				t.Errorf("counts %+v", n)
			}
		})
	}
}

func TestStreamInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b batches
		s := newStream(t, &six, StreamOptions{Interval: time.Second}, b.sink)
		for i, wait := range []time.Duration{0, 600 * time.Millisecond, 600 * time.Millisecond} {
			time.Sleep(wait) // the bubble's clock does not really wait
			synctest.Wait()
			if err := s.Append(sixRow(i)); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(b.sizes()); got != "[2]" {
			t.Errorf("batches of %v rows after 1.2 s, want [2]", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := fmt.Sprint(b.sizes()); got != "[2 1]" {
			t.Errorf("batches of %v rows, want [2 1]", got)
		}
	})
}

func TestStreamRejects(t *testing.T) {
	with := func(i int, v Value) Sample {
		row := sixRow(1)
		row[i] = v
		return row
	}
	var b batches
	s := newStream(t, &six, StreamOptions{Bytes: 1000}, b.sink)
	for name, c := range map[string]struct {
		row  Sample
		want string
	}{
		"null time":  {with(0, Value{}), `field "time" is null`},
		"wrong type": {with(4, Uint64Value(1)), `field "delay_ns" is int64, got uint64`},
		"not UTF-8":  {with(1, StringValue("\xff")), `field "device" is not UTF-8`},
		"too few":    {sixRow(1)[:5], "5 values for 6 fields"},
		"too many":   {append(sixRow(1), Value{}), "7 values for 6 fields"},
		"too long":   {with(1, StringValue(strings.Repeat("x", 1000))), "a batch holds 1000"},
	} {
		if err := s.Append(c.row); !errors.Is(err, ErrSample) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want ErrSample with %q", name, err, c.want)
		}
	}
	if n := s.Counts(); n.Refused != 6 || n.Rows != 0 {
		t.Errorf("counts %+v", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(sixRow(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

func TestInvalidStreamOptions(t *testing.T) {
	for name, o := range map[string]StreamOptions{
		"rows": {Rows: RowsMax + 1}, "negative rows": {Rows: -1}, "bytes": {Bytes: BatchBytesMax + 1},
		"negative bytes": {Bytes: -1}, "interval": {Interval: -1},
	} {
		if _, err := NewStream(&six, o, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewStream(&Schema{Name: "No"}, StreamOptions{}, nil); !errors.Is(err, ErrSchema) {
		t.Errorf("error %v, want ErrSchema", err)
	}
}

func TestStreamSinkFails(t *testing.T) {
	full := errors.New("disk is full")
	b := batches{err: full}
	s := newStream(t, &six, StreamOptions{Rows: 2}, b.sink)
	if err := s.Append(sixRow(0)); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(sixRow(1)); !errors.Is(err, full) || errors.Is(err, ErrSample) {
		t.Errorf("error %v, want %v", err, full)
	}
	b.err = nil
	if err := errors.Join(s.Append(sixRow(2)), s.Close()); err != nil {
		t.Error(err)
	}
	if n := s.Counts(); n != (StreamCounts{Rows: 3, Batches: 2, FailedBatches: 1, FailedRows: 2}) {
		t.Errorf("counts %+v", n)
	}
}

// Rows of each goroutine arrive complete and in its order.
func TestStreamConcurrent(t *testing.T) {
	var b batches
	s := newStream(t, &six, StreamOptions{Rows: 7, Interval: time.Microsecond}, b.sink)
	const writers, rows = 4, 500
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range rows {
				if err := s.Append(sixRow(w*rows + i)); err != nil {
					t.Error(err)
				}
				if i%100 == 0 {
					_ = s.Flush()
				}
			}
		})
	}
	group.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	next := make([]int64, writers)
	for _, batch := range b.rows {
		for _, n := range batch {
			if w := n / rows; n%rows != next[w] {
				t.Fatalf("writer %d: row %d, want %d", w, n%rows, next[w])
			}
			next[n/rows]++
		}
	}
	for w, n := range next {
		if n != rows {
			t.Errorf("writer %d: %d rows", w, n)
		}
	}
}

func discard(*Schema, arrow.RecordBatch) error { return nil }

func TestStreamAllocations(t *testing.T) {
	s := newStream(t, &six, StreamOptions{Rows: 10_000}, discard)
	row := sixRow(1)
	if n := testing.AllocsPerRun(50_000, func() { _ = s.Append(row) }); n != 0 {
		t.Errorf("%v allocations for each row", n)
	}
}

func BenchmarkStreamAppend(b *testing.B) {
	s := newStream(b, &six, StreamOptions{}, discard)
	row := sixRow(1)
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Append(row)
	}
}

func BenchmarkEncode(b *testing.B) { benchmarkBatch(b, func(*Envelope) {}) }

func BenchmarkEncodeDecode(b *testing.B) {
	benchmarkBatch(b, func(e *Envelope) {
		_, record, err := e.Decode()
		if err != nil {
			b.Fatal(err)
		}
		record.Release()
	})
}

func benchmarkBatch(b *testing.B, then func(*Envelope)) {
	var rows []Sample
	for i := range 10_000 {
		rows = append(rows, sixRow(i))
	}
	record := makeRecord(b, &six, rows)
	b.ReportAllocs()
	for b.Loop() {
		e, err := Encode(Key{Stream: "six"}, record)
		if err != nil {
			b.Fatal(err)
		}
		then(&e)
	}
	b.ReportMetric(float64(b.N)*10_000/b.Elapsed().Seconds(), "rows/s")
}
