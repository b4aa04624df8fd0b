package duckdb

import (
	"encoding/json"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

// rowsAsJSON collects rows, whatever batches they come in.
func rowsAsJSON(t testing.TB, to *[]string) func(arrow.RecordBatch) error {
	t.Helper()
	return func(r arrow.RecordBatch) error {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		var rows []json.RawMessage
		if err := json.Unmarshal(text, &rows); err != nil {
			return err
		}
		for _, row := range rows {
			*to = append(*to, string(row))
		}
		return nil
	}
}

// TestScansReadOnlyWhatIsNeeded: the range of time, equalities and columns of the query.
func TestScansReadOnlyWhatIsNeeded(t *testing.T) {
	stream := remoteStream{"lines", columnsOf(lines), 0}
	a := lineArchive(t, 10)
	c, err := connect(a.db)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	s := newScans(nil)
	if err := s.register(c, []remoteStream{stream}); err != nil {
		t.Fatal(err)
	}
	if err := c.script("CREATE TEMP VIEW v AS SELECT * EXCLUDE " + noColumn + " FROM " + remoteFunction + "(0)"); err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		"SELECT * FROM v": `[]`,
		"SELECT v FROM v WHERE time > '2023-11-14 22:13:21' AND line = 'it''s' AND v < 5":                 `[{time >= 1700000001000000000} {line = it's} {v <= 5}]`,
		"SELECT v FROM v WHERE time > '2023-11-14 22:13:21' OR line = 'x'":                                `[]`,
		"SELECT v FROM v WHERE v = 5 UNION ALL SELECT v FROM v WHERE v = 6":                               `[]`,
		"SELECT v FROM v WHERE v > 5 AND line = 'x' UNION ALL SELECT v FROM v WHERE v > 3 AND line = 'x'": `[{v >= 3} {line = x}]`,
		"SELECT agent FROM (SELECT agent FROM v UNION ALL SELECT line FROM v) WHERE agent = 'x'":          `[]`,
		"SELECT line FROM (SELECT agent AS line FROM v) WHERE line = 'x'":                                 `[{agent = x}]`,
	} {
		s.where = map[string][]comparison{}
		s.narrow(c.planOf(t.Context(), sql, s.streams))
		got := map[string]bool{}
		for _, w := range s.where["lines"] {
			got["{"+w.Column+" "+w.Operator+" "+w.Value+"}"] = true
		}
		for _, part := range splitParts(want) {
			if !got[part] {
				t.Errorf("%s: %v lacks %s", sql, got, part)
			}
			delete(got, part)
		}
		if len(got) > 0 {
			t.Errorf("%s: also %v", sql, got)
		}
	}
}

func splitParts(text string) (parts []string) {
	for i, from := 0, 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			from = i
		case '}':
			parts = append(parts, text[from:i+1])
		}
	}
	return parts
}
