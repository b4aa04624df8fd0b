package experiment

import (
	"bytes"
	"testing"

	"pillion.dev/internal/csvfile"
)

// TestOutputOfOurOwnCSV: text that could be a formula is read as it was before it was written.
func TestOutputOfOurOwnCSV(t *testing.T) {
	var b bytes.Buffer
	w := csvfile.NewWriter(&b)
	texts := []string{"=1+2", "-x", "@", "'quoted'", "'", "a'b", "-5"}
	w.Texts("-name", "value")
	for _, text := range texts {
		w.End()
		w.Texts(text)
		w.Cell([]byte("-5"), false)
	}
	w.End()
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	o, err := parseCSV(b.Bytes())
	if err != nil || len(o.Intervals) != len(texts) {
		t.Fatalf("%+v, %v", o, err)
	}
	for i, text := range texts {
		if o.Intervals[i]["-name"] != text || o.Intervals[i]["value"] != -5.0 {
			t.Errorf("%q is read as %v", text, o.Intervals[i])
		}
	}
}
