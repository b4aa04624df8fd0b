package report

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"pillion.dev/agent/report"
	"pillion.dev/internal/outfile"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp"
)

// file writes what a collector would receive.
type file struct {
	out    *bufio.Writer
	close  func() error
	start  time.Time
	tables map[*measure.Schema]*table
	notes  int64
	values []omsp.Value
	line   []byte
}

type table struct {
	schema omsp.Schema
	seq    int64
}

func openFile(o report.Options, path string) (report.Report, error) {
	if path == "" {
		return nil, fmt.Errorf("%w: %q has no file name", report.ErrURI, o.URI)
	}
	f, err := outfile.Path(path).Grow(0o666, nil)
	if err != nil {
		return nil, fmt.Errorf("create report file: %w", err)
	}
	return newFile(o, f, f.Close)
}

func newFile(o report.Options, out io.Writer, closeFile func() error) (*file, error) {
	f := &file{out: bufio.NewWriter(out), close: closeFile, start: time.Now().Truncate(time.Second), tables: map[*measure.Schema]*table{}}
	h := omsp.Header{Domain: o.Domain, Sender: o.Sender, App: o.App, Start: f.start.Unix(), Schemas: []omsp.Schema{omsp.Metadata}}
	for i, schema := range o.Points {
		f.tables[schema] = &table{schema: tableOf(i+1, schema)}
		h.Schemas = append(h.Schemas, f.tables[schema].schema)
	}
	if _, err := h.WriteTo(f.out); err != nil {
		return nil, errors.Join(err, closeFile())
	}
	return f, nil
}

func (f *file) Put(schema *measure.Schema, sample measure.Sample) error {
	t := f.tables[schema]
	at := fill(&f.values, schema, sample)
	t.seq++
	return f.write(omsp.Tuple{Schema: &t.schema, Time: at.Sub(f.start).Seconds(), Seq: t.seq, Values: f.values})
}

func (f *file) Note(key, value string) error {
	f.notes++
	values := make([]omsp.Value, 3)
	for i, text := range []string{".", key, value} {
		values[i].SetString(text)
	}
	return f.write(omsp.Tuple{Schema: &omsp.Metadata, Time: time.Since(f.start).Seconds(), Seq: f.notes, Values: values})
}

func (f *file) write(t omsp.Tuple) (err error) {
	if f.line, err = omsp.Append(f.line[:0], omsp.Text, &t); err != nil {
		return err
	}
	if _, err := f.out.Write(f.line); err != nil {
		return fmt.Errorf("write row: %w", err)
	}
	return nil
}

func (f *file) Room(context.Context) error { return nil }

func (f *file) Close(context.Context) error { return errors.Join(f.out.Flush(), f.close()) }
