package pillion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/omsp"
	"pillion.dev/omsp/collect"
)

type omlExportCmd struct {
	Domain string `arg:"" help:"The domain; see pillion oml domains."`
	File   string `arg:"" predictor:"file" help:"Output file, such as experiment.sq3."`
	Force  bool   `help:"Overwrite an existing file."`
}

// Help has the examples.
func (omlExportCmd) Help() string {
	return `Tables, columns and types are those of OML's server, so that scripts written for its files work. As there,
because of SQLite's types, a uint64 or guid of 2^63 or more is stored as the negative number with the same
bits, and NaN as NULL. Tuples of a table are numbered in order of time. The file gets its name only once it
is complete.

Examples:

  pillion oml export my-experiment my-experiment.sq3
  pillion oml export my-experiment my-experiment.sq3 --force --server noc.example`
}

// Run writes the file.
func (c *omlExportCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	doing := "export " + c.Domain
	if err := c.free(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	tables, err := omlTables(ctx, client)
	if err != nil {
		return err
	}
	if tables, err = ofDomain(tables, c.Domain); err != nil {
		return err
	}
	e := &omlExport{client: client, progress: newProgress(a.err)}
	err = replaceFile(ctx, c.File, 0o644, func(file *os.File) error {
		defer e.progress.end()
		return cmp.Or(e.write(ctx, file.Name(), tables), c.free())
	})
	if err != nil {
		return failed(doing, err)
	}
	if e.negative > 0 {
		a.note("%d values of 2^63 or more are stored as negative numbers: SQLite has no unsigned 64-bit integers", e.negative)
	}
	return a.done("%d tuples of %d tables written to %s", e.tuples, len(tables), c.File)
}

// free rejects an existing file, unless it may be overwritten.
func (c *omlExportCmd) free() error {
	if _, err := os.Lstat(c.File); c.Force || errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s exists: use --force to overwrite it", errValue, c.File)
}

// omlExport is one file that is being written.
type omlExport struct {
	client           *api.Client
	progress         *progress
	file             *omlFile
	tuples, negative int64
}

func (e *omlExport) write(ctx context.Context, path string, tables []omlTable) (err error) {
	if e.file, err = openOML(ctx, path, tables[0].start); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.file.close(err == nil)) }()
	for _, t := range tables {
		to, err := e.file.table(t.schema)
		if err != nil {
			return err
		}
		rows, err := e.copy(ctx, &pillionv1.ExportRequest{Stream: t.stream, Columns: columnsOf(t), Format: "arrow"}, to)
		if err != nil {
			return err
		}
		e.tuples += rows
	}
	notes := omlTable{schema: omsp.Metadata}
	_, err = e.copy(ctx, &pillionv1.ExportRequest{
		Stream: "oml_metadata", Columns: columnsOf(notes), Where: map[string]string{"domain": tables[0].domain}, Format: "arrow",
	}, e.file.metadata)
	e.negative = e.file.negative
	return err
}

// columnsOf are the stream's columns that make up a table: sender, number, times,
// fields.
func columnsOf(t omlTable) []string {
	var names []string
	used := map[string]bool{"agent": true}
	for _, f := range collect.Columns() {
		used[f.Name] = true
		if f.Name != "time" && f.Name != "oml_session" {
			names = append(names, f.Name)
		}
	}
	for _, f := range t.schema.Fields {
		name := collect.ColumnName(f.Name, used)
		used[name] = true
		names = append(names, name)
	}
	return names
}

// copy puts what the server exports into a table.
func (e *omlExport) copy(ctx context.Context, request *pillionv1.ExportRequest, to *omlRows) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := e.client.Data.Export(ctx, request)
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	from, pieces := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for stream.Receive() {
			piece := stream.Msg()
			if _, err := pieces.Write(piece.Data); err != nil {
				return
			}
			e.progress.show(e.tuples+piece.Rows, len(piece.Data))
		}
		pieces.CloseWithError(stream.Err()) // nil is the end
	}()
	rows, err := to.copy(from)
	from.Close()
	cancel()
	<-ended
	return rows, err
}

// copy reads record batches to the end of the stream.
func (r *omlRows) copy(from io.Reader) (int64, error) {
	reader, err := ipc.NewReader(from)
	if err != nil {
		return 0, fmt.Errorf("read rows: %w", err)
	}
	defer reader.Release()
	rows := int64(0)
	for reader.Next() {
		if err := r.add(reader.RecordBatch()); err != nil {
			return rows, err
		}
		rows += reader.RecordBatch().NumRows()
	}
	if err := reader.Err(); err != nil {
		return rows, fmt.Errorf("read rows: %w", err)
	}
	_, err = io.Copy(io.Discard, from) // what ends the answer says whether it is whole
	return rows, err
}
