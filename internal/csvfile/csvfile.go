// Package csvfile writes CSV (RFC 4180) with values as they are: line breaks within a cell stay
// what they were. Text cannot become a formula of a spreadsheet. The web page writes the
// same; its tests read the vectors in testdata.
package csvfile

import (
	"bytes"
	"io"
	"strings"
)

// chunkBytes are collected before they are written.
const chunkBytes = 64 << 10

// Writer writes lines of cells.
type Writer struct {
	to    io.Writer
	line  []byte
	cells int // of the line so far
	err   error
}

// NewWriter returns a Writer; Flush ends it.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Cell appends a cell to the line.
func (w *Writer) Cell(cell []byte, isText bool) {
	if w.cells > 0 {
		w.line = append(w.line, ',')
	}
	w.cells++
	w.line = AppendCell(w.line, cell, isText)
}

// formulas are the first characters of formulas of spreadsheets.
const formulas = "=+-@\t\r"

// Plain returns the text of a cell without the apostrophe that AppendCell puts in front of formulas.
func Plain(cell string) string {
	if len(cell) > 1 && cell[0] == '\'' && strings.IndexByte(formulas, cell[1]) >= 0 {
		return cell[1:]
	}
	return cell
}

// AppendCell appends a cell, without a comma, to a line. Text that a spreadsheet would take for a formula gets an
// apostrophe in front; numbers, times and other values do not.
func AppendCell(line, cell []byte, isText bool) []byte {
	formula := isText && len(cell) > 0 && strings.IndexByte(formulas, cell[0]) >= 0
	quoted := bytes.ContainsAny(cell, ",\"\r\n")
	if quoted {
		line = append(line, '"')
	}
	if formula {
		line = append(line, '\'')
	}
	if quoted {
		cell = append(bytes.ReplaceAll(cell, []byte{'"'}, []byte{'"', '"'}), '"')
	}
	return append(line, cell...)
}

// Texts appends cells of text.
func (w *Writer) Texts(cells ...string) {
	for _, cell := range cells {
		w.Cell([]byte(cell), true)
	}
}

// End ends the line.
func (w *Writer) End() {
	if n := len(w.line); w.cells == 1 && (n == 0 || w.line[n-1] == '\n') {
		w.line = append(w.line, `""`...) // an empty line would be no row
	}
	w.line, w.cells = append(w.line, '\r', '\n'), 0
	if len(w.line) >= chunkBytes {
		_ = w.Flush() // which keeps the error
	}
}

// Flush writes the lines that have ended. It returns the first error of the Writer.
func (w *Writer) Flush() error {
	if w.err == nil && len(w.line) > 0 {
		_, w.err = w.to.Write(w.line)
	}
	w.line = w.line[:0]
	return w.err
}
