package duckdb

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// flowRow is a row of flows by the names of its columns; what is missing is null.
type flowRow map[string]any

// flowBatch is a batch of rows of the stream flows.
func flowBatch(t testing.TB, agent string, sequence uint64, rows ...flowRow) archive.Batch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, measure.Flows.Arrow())
	defer b.Release()
	for _, row := range rows {
		for j, field := range measure.Flows.Fields {
			putField(b.Field(j), row[field.Name])
		}
	}
	r := b.NewRecordBatch()
	t.Cleanup(r.Release)
	return archive.Batch{Agent: agent, Key: measure.Key{Stream: "flows", Sequence: sequence}, Oldest: 0, Schema: &measure.Flows, Record: r}
}

func putField(to array.Builder, value any) {
	switch v := value.(type) {
	case nil:
		to.AppendNull()
	case time.Time:
		to.(*array.TimestampBuilder).Append(arrow.Timestamp(v.UnixNano()))
	case string:
		to.(*array.StringBuilder).Append(v)
	case time.Duration:
		to.(*array.Int64Builder).Append(int64(v))
	case int:
		switch to := to.(type) {
		case *array.Int64Builder:
			to.Append(int64(v))
		case *array.Uint64Builder:
			to.Append(uint64(v))
		case *array.Uint32Builder:
			to.Append(uint32(v))
		}
	case []int64:
		list := to.(*array.ListBuilder)
		list.Append(true)
		list.ValueBuilder().(*array.Int64Builder).AppendValues(v, nil)
	case []uint64:
		list := to.(*array.ListBuilder)
		list.Append(true)
		list.ValueBuilder().(*array.Uint64Builder).AppendValues(v, nil)
	}
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
	for _, granularity := range []string{"flow", "host-port", "host"} {
		for _, order := range []string{"packets", "bytes", "lost", "p50", "p90", "p99", "max", "last"} {
			flows, err := a.Flows(t.Context(), archive.Flows{From: question.From, To: question.To, Granularity: granularity, Order: order, Limit: 10, Search: ">"})
			if err != nil || len(flows.Flows) != 1 || flows.Found != 1 || flows.Flows[0].Packets != 7 {
				t.Errorf("%s by %s: got %+v, %v", granularity, order, flows, err)
			}
		}
	}
}
