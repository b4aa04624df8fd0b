package csvfile

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestCells: cells are as in the vectors that the page's test reads. A number there is a value,
// a string is text.
func TestCells(t *testing.T) {
	text, err := os.ReadFile("testdata/cells.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Cell json.RawMessage
		CSV  string
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		cell := string(v.Cell)
		isText := json.Unmarshal(v.Cell, &cell) == nil
		var b bytes.Buffer
		w := NewWriter(&b)
		w.Cell([]byte(cell), isText)
		w.Texts("next")
		w.End()
		if err := w.Flush(); err != nil || b.String() != v.CSV+",next\r\n" {
			t.Errorf("%s: %q, %v, want %q", v.Cell, b.String(), err, v.CSV)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestLines(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, line := range [][]string{{""}, {"", ""}, {"a"}, {""}} {
		w.Texts(line...)
		w.End()
	}
	if err := w.Flush(); err != nil || b.String() != "\"\"\r\n,\r\na\r\n\"\"\r\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	w = NewWriter(failing{})
	for range 3 * chunkBytes / 1000 {
		w.Texts(strings.Repeat("x", 1000))
		w.End()
	}
	if err := w.Flush(); err == nil || len(w.line) > 0 {
		t.Error("an error of the file is lost")
	}
}

// FuzzCells: the values are what another reader reads.
func FuzzCells(f *testing.F) {
	f.Add("a\nb", "c\"d")
	f.Fuzz(func(t *testing.T, first, second string) {
		var b bytes.Buffer
		w := NewWriter(&b)
		w.Cell([]byte(first), false)
		w.Cell([]byte(second), false)
		w.End()
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		// It makes line feeds of CRLF.
		want := []string{strings.ReplaceAll(first, "\r\n", "\n"), strings.ReplaceAll(second, "\r\n", "\n")}
		lines, err := csv.NewReader(&b).ReadAll()
		if err != nil || len(lines) != 1 || !slices.Equal(lines[0], want) {
			t.Fatalf("%q, %v, want %q", lines, err, want)
		}
	})
}
