// Command query measures how long the archive takes to return one flow's hour out of
// a day of many flows. It fills an empty archive through Store, like a server, and calls
// Series.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/archive/duckdb"
	"pillion.dev/measure"
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
	rounds       = 20
)

var start = time.Unix(1_760_000_000, 0).UTC()

type result struct {
	Rows        int64   `json:"rows"`
	Flows       int     `json:"flows"`
	Hours       float64 `json:"hours"`
	ArchiveMB   float64 `json:"archive_mb"`
	FillSeconds float64 `json:"fill_seconds"`
	Processors  int     `json:"processors"`
	FirstMS     float64 `json:"first_after_open_ms"`
	OtherFlowMS timing  `json:"another_flow_and_hour_each_time"`
	SameFlowMS  timing  `json:"same_flow_and_hour"`
}

type timing struct {
	Median float64 `json:"median_ms"`
	P99    float64 `json:"p99_ms"`
}

func main() {
	rows := flag.Int64("rows", 100_000_000, "rows to fill in")
	out := flag.String("out", "bench/results/query.json", "where the figures go")
	flag.Parse()
	if err := run(*rows, *out); err != nil {
		log.Fatal(err)
	}
}

func run(rows int64, out string) error {
	dir, err := os.MkdirTemp("", "pillion-query-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "archive.duckdb")
	r := result{Flows: flowCount, Processors: runtime.NumCPU()}
	begun := time.Now()
	seconds, err := fill(path, rows)
	if err != nil {
		return fmt.Errorf("fill archive: %w", err)
	}
	r.FillSeconds, r.Rows, r.Hours = time.Since(begun).Seconds(), seconds*flowCount, float64(seconds)/3600
	a, err := duckdb.Open(path, duckdb.Options{})
	if err != nil {
		return err
	}
	defer a.Close()
	if size, err := a.Size(); err == nil {
		r.ArchiveMB = float64(size) / 1e6
	}
	first, err := ask(a, 0, seconds)
	if err != nil {
		return err
	}
	r.FirstMS = first
	for _, t := range []struct {
		timing *timing
		spread int
	}{{&r.OtherFlowMS, 37}, {&r.SameFlowMS, 0}} {
		var took []float64
		for i := range rounds {
			ms, err := ask(a, 5+t.spread*i, seconds)
			if err != nil {
				return err
			}
			took = append(took, ms)
		}
		slices.Sort(took)
		*t.timing = timing{Median: took[rounds/2], P99: took[rounds-1]}
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return os.WriteFile(out, append(text, '\n'), 0o644)
}

// ask queries one flow in one hour with 300 points, and checks the answer's size.
func ask(a archive.Archive, flow int, seconds int64) (ms float64, err error) {
	flow %= flowCount
	hour := min(int64(3600), seconds)
	from := start.Add(time.Duration(int64(flow)*7919%(seconds-hour+1)) * time.Second)
	begun := time.Now()
	lines, err := a.Series(context.Background(), archive.Series{
		Stream: "flows", Where: map[string]string{"src": source(flow), "sport": fmt.Sprint(10_000 + flow)},
		Columns: []archive.Aggregate{{Column: "delay_mean_ns", Function: "avg", Weight: "delay_count"}, {Column: "delay_p99_ns", Function: "max"}, {Column: "lost", Function: "sum"}},
		From:    from, To: from.Add(time.Duration(hour) * time.Second), Points: 300,
	})
	took := time.Since(begun)
	if err != nil {
		return 0, err
	}
	if len(lines) != 1 || int64(len(lines[0].Times)) != min(300, hour) {
		return 0, fmt.Errorf("flow %d from %v: %d lines", flow, from, len(lines))
	}
	return float64(took.Microseconds()) / 1000, nil
}

func source(flow int) string { return fmt.Sprintf("2001:db8::%x", flow) }

// fill stores every flow once a second, and returns the number of seconds.
func fill(path string, rows int64) (seconds int64, err error) {
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
		_, rejected, err := a.Store(context.Background(), []archive.Batch{{
			Agent: "bench", Key: measure.Key{Stream: "flows", Sequence: sequence}, Oldest: sequence, Schema: flows, Record: r,
		}})
		r.Release()
		if err != nil || len(rejected) != 0 {
			return 0, fmt.Errorf("store: %w %v", err, rejected)
		}
		sequence++
	}
	return seconds, nil
}

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
			b.Field(4).(*array.Uint32Builder).Append(uint32(10_000 + flow))
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
