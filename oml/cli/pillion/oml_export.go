package pillion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/cli/command"
	"pillion.dev/cli/pillion"
	"pillion.dev/internal/outfile"
	"pillion.dev/internal/progress"
	"pillion.dev/internal/quantity"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/collect"
	"pillion.dev/oml/sqlite"
)

type omlExportCmd struct {
	Domain string       `arg:"" help:"The domain; see pillion oml domains."`
	File   outfile.Path `arg:"" predictor:"file" help:"Output file, such as experiment.sq3; - is standard output."`
	Force  bool         `help:"Overwrite an existing file."`
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
func (c *omlExportCmd) Run(ctx context.Context, a *pillion.App, client *api.Client) error {
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
	e := &omlExport{client: client, bar: progress.New(a.Err(), "export", progress.Count("tuple"))}
	err = c.File.Build(ctx, 0o666, func(name string) error {
		defer e.bar.End()
		return cmp.Or(e.write(ctx, name, tables), c.free())
	})
	if err != nil {
		return pillion.Failed(doing, err)
	}
	if e.negative > 0 {
		a.Note("%d values of 2^63 or more are stored as negative numbers: SQLite has no unsigned 64-bit integers", e.negative)
	}
	return a.Written(c.File, "%d tuples of %d tables written to %s", e.tuples, len(tables), c.File)
}

// free rejects an existing regular file, unless it may be overwritten.
func (c *omlExportCmd) free() error {
	if c.Force || !c.File.IsRegular() {
		return nil
	}
	return fmt.Errorf("%w: %s exists: use --force to overwrite it", command.ErrValue, c.File)
}

// omlExport is one file that is being written.
type omlExport struct {
	client *api.Client
	bar    *progress.Bar
	// bytes were received.
	bytes            int64
	tuples, negative int64
}

func (e *omlExport) write(ctx context.Context, path string, tables []omlTable) (err error) {
	file, err := sqlite.Create(ctx, path, tables[0].start)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(err == nil)) }()
	for _, t := range tables {
		to, err := file.Table(t.schema)
		if err != nil {
			return err
		}
		rows, err := e.copy(ctx, &pillionv1.ExportRequest{Stream: t.stream, Columns: columnsOf(t)}, to)
		if err != nil {
			return err
		}
		e.tuples += rows
	}
	notes := omlTable{schema: omsp.Metadata}
	_, err = e.copy(ctx, &pillionv1.ExportRequest{
		Stream: "oml_metadata", Columns: columnsOf(notes), Where: map[string]string{"domain": tables[0].domain},
	}, file.Metadata)
	e.negative = file.Negative
	return err
}

// columnsOf returns the stream's columns that make up a table: sender, sequence number,
// times, fields.
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

// copy inserts the rows that the server exports into a table.
func (e *omlExport) copy(ctx context.Context, request *pillionv1.ExportRequest, to *sqlite.Table) (rows int64, err error) {
	err = export(ctx, e.client, request, func(piece *pillionv1.ExportResponse) {
		e.bytes += int64(len(piece.Data))
		e.bar.Set(e.tuples+piece.Rows, 0, quantity.FormatBytes(e.bytes))
	}, func(batch arrow.RecordBatch) error {
		rows += batch.NumRows()
		return to.Add(batch)
	})
	return rows, err
}

// export requests a stream as Arrow and passes each record batch to take, and each piece
// received to shown.
func export(ctx context.Context, client *api.Client, request *pillionv1.ExportRequest, shown func(*pillionv1.ExportResponse), take func(arrow.RecordBatch) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request.Format = "arrow"
	stream, err := client.Data.Export(ctx, request)
	if err != nil {
		return err
	}
	defer stream.Close()
	from, pieces := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for stream.Receive() {
			if _, err := pieces.Write(stream.Msg().Data); err != nil {
				return
			}
			shown(stream.Msg())
		}
		pieces.CloseWithError(stream.Err()) // nil is the end
	}()
	err = readBatches(from, take)
	from.Close()
	cancel()
	<-ended
	return err
}

// readBatches reads record batches to the end of the stream.
func readBatches(from io.Reader, take func(arrow.RecordBatch) error) error {
	reader, err := ipc.NewReader(from)
	if err != nil {
		return fmt.Errorf("read rows: %w", err)
	}
	defer reader.Release()
	for reader.Next() {
		if err := take(reader.RecordBatch()); err != nil {
			return err
		}
	}
	if err := reader.Err(); err != nil {
		return fmt.Errorf("read rows: %w", err)
	}
	_, err = io.Copy(io.Discard, from) // only the end of the response tells whether it is complete
	return err
}
