package web

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"pillion.dev/internal/csvfile"
)

// formats are the file formats of exports.
var formats = map[string]struct {
	contentType, extension string
	open                   func(io.Writer, *arrow.Schema) (rowWriter, error)
}{
	"arrow":   {"application/vnd.apache.arrow.stream", "arrows", openArrow},
	"csv":     {"text/csv; charset=utf-8; header=present", "csv", openCSV},
	"parquet": {"application/vnd.apache.parquet", "parquet", openParquet},
}

// rowWriter writes record batches of one schema as a file. Close completes the file but
// does not close the underlying writer.
type rowWriter interface {
	Write(arrow.RecordBatch) error
	Close() error
}

func openArrow(to io.Writer, schema *arrow.Schema) (rowWriter, error) {
	return ipc.NewWriter(to, ipc.WithSchema(schema)), nil
}

// csvWriter writes a header and rows: times as RFC 3339 in UTC with nanoseconds, lists as
// [1,2], binary as base64, null as an empty field.
type csvWriter struct {
	*csvfile.Writer
	cell []byte
}

func openCSV(to io.Writer, schema *arrow.Schema) (rowWriter, error) {
	w := &csvWriter{Writer: csvfile.NewWriter(to)}
	for _, field := range schema.Fields() {
		w.Texts(field.Name)
	}
	w.End()
	return w, w.Flush()
}

func (w *csvWriter) Write(record arrow.RecordBatch) error {
	columns, _ := allCells(record)
	for i := range int(record.NumRows()) {
		for _, column := range columns {
			w.cell = w.cell[:0]
			if !column.IsNull(i) {
				w.cell = column.text(w.cell, i)
			}
			w.Cell(w.cell, column.isText)
		}
		w.End()
	}
	return w.Flush()
}

func (w *csvWriter) Close() error { return nil }

// chunkBytes is the size of the pieces in which a file is sent.
const chunkBytes = 64 << 10

// chunks passes a file on in chunks of equal size, independent of the sizes of writes.
type chunks struct {
	buffer []byte
	send   func([]byte) error
}

func (c *chunks) Write(p []byte) (int, error) {
	for left := p; len(left) > 0; {
		n := min(len(left), chunkBytes-len(c.buffer))
		c.buffer, left = append(c.buffer, left[:n]...), left[n:]
		if len(c.buffer) == chunkBytes {
			if err := c.flush(); err != nil {
				return len(p) - len(left), err
			}
		}
	}
	return len(p), nil
}

func (c *chunks) flush() error {
	if len(c.buffer) == 0 {
		return nil
	}
	err := c.send(c.buffer)
	c.buffer = c.buffer[:0]
	return err
}

// rowFile is an export in progress: the format is opened by the first record batch, which
// determines the types.
type rowFile struct {
	format string
	chunks *chunks
	writer rowWriter
	schema *arrow.Schema
	rows   int64
}

func (f *rowFile) open(schema *arrow.Schema) (err error) {
	if f.writer != nil {
		return nil
	}
	f.schema = schema
	f.writer, err = formats[f.format].open(f.chunks, schema)
	return err
}

func (f *rowFile) write(record arrow.RecordBatch) error {
	if err := f.open(record.Schema()); err != nil {
		return err
	}
	if !record.Schema().Equal(f.schema) {
		return fmt.Errorf("write %s: columns changed from %v to %v", f.format, f.schema, record.Schema())
	}
	f.rows += record.NumRows()
	return f.writer.Write(record)
}

func (f *rowFile) close() error {
	if err := f.writer.Close(); err != nil {
		return err
	}
	return f.chunks.flush()
}
