package measure

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestWiden(t *testing.T) {
	with := func(fields ...Field) *Schema {
		return &Schema{Name: "s", Doc: "d", Fields: slices.Concat([]Field{TimeField}, fields)}
	}
	a := func(t Type) Field { return Field{Name: "a", Type: t} }
	for name, c := range map[string]struct {
		have, want *Schema
		result     *Schema // nil for an error
		text       string
	}{
		"the same":             {with(a(Int64)), with(a(Int64)), with(a(Int64)), ""},
		"a new column":         {with(a(Int64)), with(Field{Name: "b", Type: String}), with(a(Int64), Field{Name: "b", Type: String}), ""},
		"a column less":        {with(a(Int64)), with(), with(a(Int64)), ""},
		"another order":        {with(a(Int64), Field{Name: "b", Type: String}), with(Field{Name: "b", Type: String}, a(Int64)), with(a(Int64), Field{Name: "b", Type: String}), ""},
		"int32 to int64":       {with(a(Int32)), with(a(Int64)), with(a(Int64)), ""},
		"int64 holds int32":    {with(a(Int64)), with(a(Int32)), with(a(Int64)), ""},
		"uint32 to uint64":     {with(a(Uint32)), with(a(Uint64)), with(a(Uint64)), ""},
		"uint32 to int64":      {with(a(Uint32)), with(a(Int64)), with(a(Int64)), ""},
		"uint32 and int32":     {with(a(Uint32)), with(a(Int32)), with(a(Int64)), ""},
		"int32 to float64":     {with(a(Int32)), with(a(Float64)), with(a(Float64)), ""},
		"a unit at last":       {with(a(Int64)), with(Field{"a", Int64, "ns", "x"}), with(Field{"a", Int64, "ns", "x"}), ""},
		"an older description": {with(Field{"a", Int64, "ns", "x"}), with(Field{"a", Int64, "", "y"}), with(Field{"a", Int64, "ns", "x"}), ""},
		"int64 and uint64":     {with(a(Int64)), with(a(Uint64)), nil, `column "a" is int64 and cannot hold uint64`},
		"int64 and float64":    {with(a(Int64)), with(a(Float64)), nil, `column "a"`},
		"string and binary":    {with(a(String)), with(a(Binary)), nil, `column "a"`},
		"lists":                {with(a(Int64List)), with(a(Uint64List)), nil, `column "a"`},
		"time and int64":       {with(a(Time)), with(a(Int64)), nil, `column "a"`},
		"two units":            {with(Field{"a", Int64, "ns", ""}), with(Field{"a", Int64, "ms", ""}), nil, `column "a" is in "ns", not in "ms"`},
		"another stream":       {with(), &Schema{Name: "t", Fields: []Field{TimeField}}, nil, `the other is "t"`},
	} {
		t.Run(name, func(t *testing.T) {
			before := fmt.Sprint(*c.have)
			result, changed, err := Widen(c.have, c.want)
			if c.result == nil {
				if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), c.text) {
					t.Fatalf("error %v, want ErrSchema with %q", err, c.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(*result) != fmt.Sprint(*c.result) {
				t.Errorf("%+v, want %+v", result, c.result)
			}
			if changed != (fmt.Sprint(*result) != before) || fmt.Sprint(*c.have) != before {
				t.Errorf("changed %v, have %+v", changed, c.have)
			}
			if again, changed, err := Widen(result, c.want); err != nil || changed {
				t.Errorf("widened again: %+v, %v, %v", again, changed, err)
			}
		})
	}
}

func TestReadRejects(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}, {Name: "y", Type: arrow.FixedWidthTypes.Timestamp_s}}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	for _, f := range builder.Fields() {
		f.AppendNull()
	}
	record := builder.NewRecordBatch()
	defer record.Release()
	for name, c := range map[string]struct {
		row  int
		into Sample
		want string
	}{
		"before":   {-1, make(Sample, 2), "the batch has 1"},
		"beyond":   {1, make(Sample, 2), "the batch has 1"},
		"no room":  {0, make(Sample, 1), "2 columns"},
		"the type": {0, make(Sample, 2), `column "x" is int8`},
	} {
		if err := readRow(record, c.row, c.into); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
