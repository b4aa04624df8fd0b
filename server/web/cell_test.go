package web

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestExactTypes: what a query can return reaches the API and CSV with all digits.
func TestExactTypes(t *testing.T) {
	list := arrow.ListOf
	for name, row := range map[string]struct {
		kind        arrow.DataType
		json        string // of Arrow
		value, text string
	}{
		"sum":                {&arrow.Decimal128Type{Precision: 38}, `"40"`, "int:40", "40"},
		"sum of 64 bits":     {&arrow.Decimal128Type{Precision: 38}, `"18446744073709551615"`, "uint:18446744073709551615", "18446744073709551615"},
		"negative sum":       {&arrow.Decimal128Type{Precision: 38}, `"-18446744073709551616"`, `text:"-18446744073709551616"`, "-18446744073709551616"},
		"HUGEINT":            {&arrow.Decimal128Type{Precision: 38}, `"99999999999999999999999999999999999999"`, `text:"99999999999999999999999999999999999999"`, "99999999999999999999999999999999999999"},
		"UHUGEINT":           {&arrow.Decimal256Type{Precision: 39}, `"340282366920938463463374607431768211455"`, `text:"340282366920938463463374607431768211455"`, "340282366920938463463374607431768211455"},
		"DECIMAL":            {&arrow.Decimal128Type{Precision: 10, Scale: 2}, `"1.10"`, `text:"1.10"`, "1.10"},
		"small DECIMAL":      {&arrow.Decimal128Type{Precision: 10, Scale: 4}, `"-0.0012"`, `text:"-0.0012"`, "-0.0012"},
		"UBIGINT[]":          {list(arrow.PrimitiveTypes.Uint64), `[1, "18446744073709551615"]`, "list:{values:1 values:-1}", "[1,18446744073709551615]"},
		"BIGINT[] with null": {list(arrow.PrimitiveTypes.Int64), `[1, null]`, `text:"[1,null]"`, "[1,null]"},
		"DOUBLE[]":           {list(arrow.PrimitiveTypes.Float64), `[1.5, 2, 0.1]`, `text:"[1.5,2,0.1]"`, "[1.5,2,0.1]"},
		"empty list":         {list(arrow.PrimitiveTypes.Float64), `[]`, `text:"[]"`, "[]"},
		"DECIMAL[]":          {list(&arrow.Decimal128Type{Precision: 38, Scale: 1}), `["-1.0"]`, `text:"[-1.0]"`, "[-1.0]"},
		"STRUCT": {arrow.StructOf(arrow.Field{Name: "a \"b\"", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, arrow.Field{Name: "c", Type: list(arrow.BinaryTypes.String), Nullable: true}),
			`{"a \"b\"": "9223372036854775807", "c": ["x\ny"]}`, `text:"{\"a \\\"b\\\"\":9223372036854775807,\"c\":[\"x\\ny\"]}"`, `{"a \"b\"":9223372036854775807,"c":["x\ny"]}`},
		"MAP": {arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), `[{"key": "a", "value": 5}]`,
			`text:"[{\"key\":\"a\",\"value\":5}]"`, `[{"key":"a","value":5}]`},
		"DATE":              {arrow.FixedWidthTypes.Date32, `"2020-01-02"`, "time:1577923200000000000", "2020-01-02T00:00:00Z"},
		"DATE far away":     {arrow.FixedWidthTypes.Date32, `"9999-12-31"`, `text:"9999-12-31T00:00:00Z"`, "9999-12-31T00:00:00Z"},
		"DATE long ago":     {arrow.FixedWidthTypes.Date32, `"0001-01-01"`, `text:"0001-01-01T00:00:00Z"`, "0001-01-01T00:00:00Z"},
		"TIMESTAMP":         {arrow.FixedWidthTypes.Timestamp_us, `"1969-12-31T23:59:59.999999"`, "time:-1000", "1969-12-31T23:59:59.999999Z"},
		"TIMESTAMP in 9999": {arrow.FixedWidthTypes.Timestamp_us, `"9999-12-31T23:59:59.5"`, `text:"9999-12-31T23:59:59.5Z"`, "9999-12-31T23:59:59.5Z"},
	} {
		t.Run(name, func(t *testing.T) {
			a, _, err := array.FromJSON(memory.DefaultAllocator, row.kind, strings.NewReader("["+row.json+"]"))
			if err != nil {
				t.Fatal(err)
			}
			defer a.Release()
			c := cellsOf(a)
			if got := strings.ReplaceAll(c.value(0).String(), "  ", " "); got != row.value {
				t.Errorf("value %s, want %s", got, row.value)
			}
			if got := string(c.text(nil, 0)); got != row.text {
				t.Errorf("text %s, want %s", got, row.text)
			}
		})
	}
}

// TestInfiniteTimes: DuckDB has infinite dates and times.
func TestInfiniteTimes(t *testing.T) {
	b := array.NewDate32Builder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues([]arrow.Date32{2147483647, -2147483647}, nil)
	dates := b.NewArray()
	defer dates.Release()
	for i, want := range []string{"infinity", "-infinity"} {
		if got := cellsOf(dates).value(i).GetText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestExportedText: text cannot become a formula, and line breaks stay; numbers are untouched.
func TestExportedText(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "=name", Type: arrow.BinaryTypes.String}, {Name: "v", Type: arrow.PrimitiveTypes.Int64}}, nil)
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[{"=name": "=HYPERLINK(\"x\")", "v": -5}, {"=name": "a\nb\rc", "v": 6}]`))
	if err != nil {
		t.Fatal(err)
	}
	defer record.Release()
	var file bytes.Buffer
	w, err := openCSV(&file, schema)
	if err == nil {
		err = w.Write(record)
	}
	if want := "'=name,v\r\n\"'=HYPERLINK(\"\"x\"\")\",-5\r\n\"a\nb\rc\",6\r\n"; err != nil || file.String() != want {
		t.Errorf("%q, %v, want %q", file.String(), err, want)
	}
	if lines, err := csv.NewReader(&file).ReadAll(); err != nil || len(lines) != 3 {
		t.Errorf("%q, %v", lines, err)
	}
}
