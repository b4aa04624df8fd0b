package measuretest

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// FiguresFile is where Figures are, seen from a package two folders deep.
const FiguresFile = "../../measure/flows/testdata/figures.json"

// Figures are rows of flows and what every reader of them has to make of them: the
// archive, live windows, the API, the command line and the page.
type Figures struct {
	// Rows by column; times are ns since 1970.
	Rows []map[string]any `json:"rows"`
	// Windows of the API, one for each row, with histograms; Total is the window of all
	// rows, without. Both are in the JSON of protobuf.
	Windows []json.RawMessage `json:"windows"`
	Total   json.RawMessage   `json:"total"`
}

// ReadFigures reads them, and their rows as delivered by the agent b.
func ReadFigures(t testing.TB) (f Figures, rows []flows.Row) {
	t.Helper()
	text, err := os.ReadFile(FiguresFile)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&f); err != nil {
		t.Fatalf("read %s: %v", FiguresFile, err)
	}
	var names []string
	for _, field := range measure.Flows.Fields {
		names = append(names, field.Name)
	}
	scanner := flows.NewScanner(names)
	for _, row := range f.Rows {
		scanned := scanner.Scan(func(i int) measure.Value { return valueOf(t, measure.Flows.Fields[i].Type, row[names[i]]) })
		scanned.Destination = "b"
		rows = append(rows, *scanned)
	}
	return f, rows
}

func valueOf(t testing.TB, kind measure.Type, value any) measure.Value {
	t.Helper()
	integer := func(v any) int64 {
		n, err := v.(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	switch v := value.(type) {
	case string:
		return measure.StringValue(v)
	case []any:
		list := make([]int64, len(v))
		for i := range v {
			list[i] = integer(v[i])
		}
		if kind == measure.Uint64List {
			return measure.Uint64ListValue(measure.Int64ListValue(list).List())
		}
		return measure.Int64ListValue(list)
	case json.Number:
		n := integer(v)
		switch kind {
		case measure.Time:
			return measure.TimeValue(time.Unix(0, n))
		case measure.Uint32:
			return measure.Uint32Value(uint32(n))
		case measure.Uint64:
			return measure.Uint64Value(uint64(n))
		}
		return measure.Int64Value(n)
	}
	return measure.Value{}
}
