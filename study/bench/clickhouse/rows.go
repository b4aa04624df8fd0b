package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/measure"
	"pillion.dev/measure/histogram"
)

const (
	// hosts are in a full mesh: each receives a flow of each, with one row a second.
	hosts = 34
	// batchSeconds are in a batch of one agent.
	batchSeconds = 60
	batchRows    = hosts * batchSeconds
	// variants of batches differ in all but the time.
	variants = 4
	packets  = 10 // of a row
)

func host(i int) string { return fmt.Sprintf("host-%02d", i) }

// batches are rows of flows to one host, for any minute.
type batches struct{ records []arrow.RecordBatch }

func newBatches() *batches {
	b := &batches{}
	random := rand.New(rand.NewPCG(1, 2))
	for range variants {
		b.records = append(b.records, randomRecord(random))
	}
	return b
}

// at is the batch of a host for the seconds that begin at a time.
func (b *batches) at(host int, begin time.Time) arrow.RecordBatch {
	of := b.records[(host+int(begin.Unix()/batchSeconds))%variants]
	times := array.NewTimestampBuilder(memory.DefaultAllocator, arrow.FixedWidthTypes.Timestamp_ns.(*arrow.TimestampType))
	defer times.Release()
	for row := range batchRows {
		times.Append(arrow.Timestamp(begin.Add(time.Duration(row/hosts+1) * time.Second).UnixNano()))
	}
	columns := append([]arrow.Array{times.NewArray()}, of.Columns()[1:]...)
	defer columns[0].Release()
	return array.NewRecordBatch(of.Schema(), columns, batchRows)
}

// randomRecord has all columns; the times are replaced.
func randomRecord(random *rand.Rand) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, measure.Flows.Arrow())
	defer b.Release()
	for row := range batchRows {
		values := randomRow(random, row%hosts)
		for i, f := range measure.Flows.Fields {
			appendTo(b.Field(i), values[f.Name])
		}
	}
	return b.NewRecordBatch()
}

// randomRow are the values of a row from one host, by column; others are null.
func randomRow(random *rand.Rand, from int) map[string]any {
	row := map[string]any{
		"time": int64(0), "session": "mesh", "source": host(from), "device": "eth0", "src": fmt.Sprintf("2001:db8::%x", from), "dst": "2001:db8:1::1",
		"proto": "udp", "sport": uint32(10_000 + from), "dport": uint32(443), "interval_ns": int64(time.Second),
		"packets": uint64(packets), "bytes": uint64(packets * (64 + random.IntN(1400))), "expected": uint64(packets + random.IntN(2)), "lost": uint64(random.IntN(2)),
		"duplicated": uint64(0), "reordered": uint64(random.IntN(3)), "late": uint64(0), "unchecked": uint64(0),
		"clock_error_ns": int64(500 + random.IntN(1000)), "source_clock_error_ns": int64(500 + random.IntN(1000)),
	}
	for _, of := range []string{"delay", "ipdv"} {
		var h histogram.Histogram
		least, most, sum := int64(1<<62), int64(-1<<62), int64(0)
		for range packets {
			v := int64(200_000 + random.ExpFloat64()*50_000)
			if of == "ipdv" {
				v = int64(random.NormFloat64() * 20_000)
			}
			h.Add(v)
			least, most, sum = min(least, v), max(most, v), sum+v
		}
		row[of+"_count"], row[of+"_min_ns"], row[of+"_mean_ns"], row[of+"_max_ns"] = uint64(packets), least, sum/packets, most
		row[of+"_bounds_ns"], row[of+"_counts"] = h.Bounds, h.Counts
		for name, q := range map[string]float64{"_p50_ns": 0.5, "_p90_ns": 0.9, "_p99_ns": 0.99} {
			row[of+name] = int64(h.Quantile(q, float64(least), float64(most)))
		}
		if of == "delay" {
			row["delay_offsets_ns"] = h.Offsets
		}
	}
	return row
}

func appendTo(b array.Builder, value any) {
	switch v := value.(type) {
	case nil:
		b.AppendNull()
	case string:
		b.(*array.StringBuilder).Append(v)
	case uint32:
		b.(*array.Uint32Builder).Append(v)
	case uint64:
		b.(*array.Uint64Builder).Append(v)
	case int64:
		if times, is := b.(*array.TimestampBuilder); is {
			times.Append(arrow.Timestamp(v))
			return
		}
		b.(*array.Int64Builder).Append(v)
	case []int64:
		list := b.(*array.ListBuilder)
		list.Append(true)
		list.ValueBuilder().(*array.Int64Builder).AppendValues(v, nil)
	case []uint64:
		list := b.(*array.ListBuilder)
		list.Append(true)
		list.ValueBuilder().(*array.Uint64Builder).AppendValues(v, nil)
	}
}
