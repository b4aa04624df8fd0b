package duckdb

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sys/unix"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// wholeTable are queries that read all rows of a stream: by the process, each row passes a
// pipe, which costs about ten times what DuckDB needs for it. More threads or memory do not
// change that.
var wholeTable = map[string]string{
	"nothing":         "SELECT 1",
	"two numbers":     "SELECT sum(packets)::DOUBLE, max(delay_p99_ns) FROM flows",
	"grouped by text": "SELECT src, count(*), avg(delay_p99_ns) FROM flows GROUP BY src",
}

// BenchmarkWholeTable compares a query in its process with the same one in the server's.
func BenchmarkWholeTable(b *testing.B) {
	const batches, rows = 40, 50_000
	a, err := Open(filepath.Join(b.TempDir(), "archive.duckdb"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	for i := range batches {
		if _, rejected, err := a.Store(b.Context(), []archive.Batch{wideBatch(i, rows)}); err != nil || len(rejected) != 0 {
			b.Fatal(err, rejected)
		}
	}
	for name, sql := range wholeTable {
		take := func(arrow.RecordBatch) error { return nil }
		for where, ask := range map[string]func() error{
			"process": func() error { return a.Query(b.Context(), sql, nil, archive.Limits{}, take) },
			"server": func() error {
				return a.reader(b.Context(), 0, func(ctx context.Context, c *connection) error { return c.query(ctx, sql, nil, take) })
			},
		} {
			b.Run(name+"/"+where, func(b *testing.B) {
				before := processorTime(b)
				for b.Loop() {
					if err := ask(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(processorTime(b)-before)/float64(batches*rows*b.N), "cpu-ns/row")
				b.ReportMetric(float64(batches*rows*b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
			})
		}
	}
}

// processorTime is that of this process and of those that have ended.
func processorTime(b *testing.B) (sum time.Duration) {
	b.Helper()
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		if err := unix.Getrusage(who, &usage); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return sum
}

// wideBatch has rows of a thousand flows.
func wideBatch(sequence, rows int) archive.Batch {
	schema := &measure.Schema{Name: "flows", Fields: []measure.Field{
		measure.TimeField, {Name: "src", Type: measure.String}, {Name: "packets", Type: measure.Uint64}, {Name: "delay_p99_ns", Type: measure.Int64},
	}}
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow())
	defer builder.Release()
	for i := range rows {
		n := uint64(sequence*rows+i) * 2654435761
		builder.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(1_760_000_000e9 + int64(sequence*rows+i)*1e6))
		builder.Field(1).(*array.StringBuilder).Append("2001:db8::" + string(rune('a'+n%26)) + string(rune('a'+n/26%26)))
		builder.Field(2).(*array.Uint64Builder).Append(100 + n%900)
		builder.Field(3).(*array.Int64Builder).Append(int64(2_000_000 + n%5_000_000))
	}
	return archive.Batch{
		Agent: "bench", Key: measure.Key{Stream: "flows", Sequence: uint64(sequence)}, Schema: schema, Record: builder.NewRecordBatch(),
	}
}
