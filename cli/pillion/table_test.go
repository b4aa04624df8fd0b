package pillion

import (
	"bytes"
	"strings"
	"testing"

	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/csvfile"
)

// TestExactTypes: numbers that the API has as text are numbers in JSON, and lists are lists.
func TestExactTypes(t *testing.T) {
	text := func(s string) *pillionv1.Value { return &pillionv1.Value{Kind: &pillionv1.Value_Text{Text: s}} }
	for name, row := range map[string]struct {
		kind      string
		value     *pillionv1.Value
		json, csv string
	}{
		"UHUGEINT":       {"decimal256(39, 0)", text("340282366920938463463374607431768211455"), `340282366920938463463374607431768211455`, "340282366920938463463374607431768211455"},
		"DECIMAL":        {"decimal(10, 2)", text("-1.10"), `-1.10`, "-1.10"},
		"sum":            {"decimal(38, 0)", &pillionv1.Value{Kind: &pillionv1.Value_Int{Int: 40}}, `40`, "40"},
		"UBIGINT[]":      {"uint64[]", &pillionv1.Value{Kind: &pillionv1.Value_List{List: &pillionv1.List{Values: []int64{1, -1}}}}, `[1,18446744073709551615]`, "1 18446744073709551615"},
		"BIGINT[]":       {"int64[]", &pillionv1.Value{Kind: &pillionv1.Value_List{List: &pillionv1.List{Values: []int64{1, -1}}}}, `[1,-1]`, "1 -1"},
		"with null":      {"int64[]", text("[1,null]"), `[1,null]`, `"[1,null]"`},
		"DOUBLE[]":       {"list<item: float64, nullable>", text("[1.5,2]"), `[1.5,2]`, `"[1.5,2]"`},
		"STRUCT":         {"struct<a: int64>", text(`{"a":1}`), `{"a":1}`, `"{""a"":1}"`},
		"text":           {"string", text("[1.5,2]"), `"[1.5,2]"`, `"[1.5,2]"`},
		"number as text": {"string", text("-5"), `"-5"`, `'-5`},
		"formula":        {"string", text("=1+1"), `"=1+1"`, `'=1+1`},
		"lines":          {"string", text("a\nb\rc"), `"a\nb\rc"`, "\"a\nb\rc\""},
		"no JSON":        {"struct<a: int64>", text("{"), `"{"`, "{"},
		"null":           {"decimal(38, 0)", &pillionv1.Value{}, `null`, `""`},
	} {
		t.Run(name, func(t *testing.T) {
			columns := []*pillionv1.Column{{Name: "v", Type: row.kind}}
			of := &pillionv1.Row{Values: []*pillionv1.Value{row.value}}
			var json, csv bytes.Buffer
			if err := writeJSONLine(&json, rowJSON(columns, of)); err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSpace(json.String()); got != `{"v":`+row.json+`}` {
				t.Errorf("%s, want %s", got, row.json)
			}
			w := csvfile.NewWriter(&csv)
			csvLine(w, rowCells(columns, of))
			if err := w.Flush(); err != nil || csv.String() != row.csv+"\r\n" {
				t.Errorf("%q, %v, want %q", csv.String(), err, row.csv)
			}
		})
	}
}
