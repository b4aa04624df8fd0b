// Command query is the workload of the experiment on queries (study/bench/query.yaml): how long the archive takes to answer a
// question about one flow's hour among many flows. Its subcommands:
//
//	fill  makes an archive through Store, like a server
//	ask   opens an archive, asks, and prints how long the answers took
//
// Each prints one JSON object. What it does not prove: nothing else is stored or asked meanwhile.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/archive/duckdb"
	"pillion.dev/measure"
	"pillion.dev/study/bench/result"
)

// flows has the columns of measure.Flows that the query requires, and its labels.
var flows = &measure.Schema{Name: "flows", Doc: "flows for the benchmark", Fields: []measure.Field{
	measure.TimeField,
	{Name: "session", Type: measure.String}, {Name: "src", Type: measure.String}, {Name: "dst", Type: measure.String},
	{Name: "sport", Type: measure.Uint32}, {Name: "dport", Type: measure.Uint32},
	{Name: "packets", Type: measure.Uint64}, {Name: "lost", Type: measure.Uint64},
	{Name: "delay_count", Type: measure.Uint64}, {Name: "delay_mean_ns", Type: measure.Int64}, {Name: "delay_p99_ns", Type: measure.Int64},
}}

const (
	flowCount    = 1000
	secondsBatch = 100 // of all flows in one batch
)

var start = time.Unix(1_760_000_000, 0).UTC()

var commands = map[string]result.Command{"fill": fillCommand, "ask": askCommand}

func main() { result.Main("query", commands) }

func fillCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	path := f.String("archive", "archive.duckdb", "file that is made")
	rows := f.Int64("rows", 100_000_000, "rows, rounded up to a second of 1000 flows")
	return func(ctx context.Context) (result.Result, error) {
		if *rows < 1 {
			return nil, fmt.Errorf("invalid -rows %d: want a positive number", *rows)
		}
		begun := time.Now()
		seconds, err := fill(ctx, *path, *rows)
		if err != nil {
			return nil, fmt.Errorf("fill archive: %w", err)
		}
		took := time.Since(begun)
		info, err := os.Stat(*path)
		if err != nil {
			return nil, err
		}
		return result.Result{
			"rows": seconds * flowCount, "hours": float64(seconds) / 3600, "seconds": took.Seconds(), "archive_mb": float64(info.Size()) / 1e6,
		}, nil
	}
}

// fill stores every flow once a second, and returns the number of seconds.
func fill(ctx context.Context, path string, rows int64) (seconds int64, err error) {
	a, err := duckdb.Open(path, duckdb.Options{LogBytes: 512 << 20})
	if err != nil {
		return 0, err
	}
	defer func() {
		if failed := a.Close(); err == nil {
			err = failed
		}
	}()
	seconds = (rows + flowCount - 1) / flowCount
	sequence := uint64(0)
	for at := int64(0); at < seconds; at += secondsBatch {
		r := record(at, min(at+secondsBatch, seconds))
		_, rejected, err := a.Store(ctx, []archive.Batch{{
			Agent: "bench", Key: measure.Key{Stream: flows.Name, Sequence: sequence}, Oldest: sequence, Schema: flows, Record: r,
		}})
		r.Release()
		if err != nil {
			return 0, err
		}
		if len(rejected) != 0 {
			return 0, fmt.Errorf("batch %d was rejected: %w", sequence, rejected[0])
		}
		sequence++
	}
	return seconds, nil
}

func source(flow int) string { return fmt.Sprintf("2001:db8::%x", flow) }

func record(from, to int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, flows.Arrow())
	defer b.Release()
	for at := from; at < to; at++ {
		for flow := range flowCount {
			n := uint64(at)*2654435761 ^ uint64(flow)*40503
			b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(start.Add(time.Duration(at) * time.Second).UnixNano()))
			b.Field(1).(*array.StringBuilder).Append("all")
			b.Field(2).(*array.StringBuilder).Append(source(flow))
			b.Field(3).(*array.StringBuilder).Append("2001:db8:1::1")
			b.Field(4).(*array.Uint32Builder).Append(uint32(firstPort + flow))
			b.Field(5).(*array.Uint32Builder).Append(443)
			b.Field(6).(*array.Uint64Builder).Append(100 + n%900)
			b.Field(7).(*array.Uint64Builder).Append(n % 3)
			b.Field(8).(*array.Uint64Builder).Append(100 + n%900)
			b.Field(9).(*array.Int64Builder).Append(int64(1_000_000 + n%500_000))
			b.Field(10).(*array.Int64Builder).Append(int64(2_000_000 + n%5_000_000))
		}
	}
	return b.NewRecordBatch()
}
