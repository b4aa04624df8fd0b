// Package measuretest builds record batches for tests.
package measuretest

import (
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// Flows holds rows of flows as an agent sends them, until the test ends.
func Flows(t testing.TB, rows ...flows.Row) arrow.RecordBatch {
	t.Helper()
	var out arrow.RecordBatch
	stream, err := measure.NewStream(&measure.Flows, measure.StreamOptions{Rows: len(rows) + 1, Bytes: measure.BatchBytesMax}, func(_ *measure.Schema, r arrow.RecordBatch) error {
		r.Retain()
		out = r
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := stream.Append(rows[i].Sample(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Release)
	return out
}

// Fields is a row by the names of its columns; missing ones are null.
type Fields map[string]any

// Record holds rows of a schema until the test ends.
func Record(t testing.TB, schema *measure.Schema, rows ...Fields) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow())
	defer b.Release()
	for _, row := range rows {
		for j, field := range schema.Fields {
			put(t, b.Field(j), row[field.Name])
		}
	}
	r := b.NewRecordBatch()
	t.Cleanup(r.Release)
	return r
}

func put(t testing.TB, to array.Builder, value any) {
	t.Helper()
	switch v := value.(type) {
	case nil:
		to.AppendNull()
	case time.Time:
		to.(*array.TimestampBuilder).Append(arrow.Timestamp(v.UnixNano()))
	case string:
		to.(*array.StringBuilder).Append(v)
	case bool:
		to.(*array.BooleanBuilder).Append(v)
	case float64:
		to.(*array.Float64Builder).Append(v)
	case time.Duration:
		to.(*array.Int64Builder).Append(int64(v))
	case int64:
		to.(*array.Int64Builder).Append(v)
	case uint64:
		to.(*array.Uint64Builder).Append(v)
	case int:
		switch to := to.(type) {
		case *array.Int64Builder:
			to.Append(int64(v))
		case *array.Uint64Builder:
			to.Append(uint64(v))
		case *array.Int32Builder:
			to.Append(int32(v))
		case *array.Uint32Builder:
			to.Append(uint32(v))
		default:
			t.Fatalf("an int cannot be a value of %v", to.Type())
		}
	case []byte:
		to.(*array.BinaryBuilder).Append(v)
	case []int64:
		list := to.(*array.ListBuilder)
		list.Append(true)
		list.ValueBuilder().(*array.Int64Builder).AppendValues(v, nil)
	case []uint64:
		list := to.(*array.ListBuilder)
		list.Append(true)
		list.ValueBuilder().(*array.Uint64Builder).AppendValues(v, nil)
	default:
		t.Fatalf("a field of a row cannot be a %T", value)
	}
}
