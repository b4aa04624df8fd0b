package pillion

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"connectrpc.com/connect"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/cli/terminal"
	"pillion.dev/internal/outfile"
	"pillion.dev/internal/progress"
	"pillion.dev/internal/quantity"
)

type exportCmd struct {
	Stream  string        `arg:"" predictor:"stream" help:"The stream, such as flows."`
	Format  string        `placeholder:"NAME" enum:",csv,parquet,arrow" default:"" help:"csv, parquet or arrow (IPC stream); default: by the file extension, else csv."`
	From    moment        `placeholder:"TIME" help:"Rows from this time on; default: all."`
	To      moment        `placeholder:"TIME" help:"Rows before this time; default: now."`
	Columns []string      `placeholder:"LIST" help:"Columns to export; default: all."`
	Where   []string      `sep:"none" placeholder:"COLUMN=VALUE" help:"Only rows with this value. Repeatable."`
	Limit   quantity.Size `placeholder:"N" help:"Maximum number of rows; default: all."`
	File    outfile.Path  `short:"f" placeholder:"FILE" predictor:"file" help:"Output file; default: standard output, also written as -."`
}

// Help has the examples.
func (exportCmd) Help() string {
	return `A regular file is written atomically: it has its name only when it is complete. A device, a FIFO or a socket,
also one named as unix:PATH, is written to; it is not replaced.

Examples:

  pillion export flows --from -1d -f flows.parquet
  pillion export flows --where session=web-delay --from 'today 09:00' --to now --format csv`
}

// Run writes a file.
func (c *exportCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	where, err := parsePairs(c.Where)
	if err != nil {
		return fmt.Errorf("read --where: %w", err)
	}
	format := cmp.Or(c.Format, map[string]string{".parquet": "parquet", ".arrow": "arrow", ".arrows": "arrow"}[filepath.Ext(string(c.File))], "csv")
	toOut := c.File == "" || c.File == outfile.Stdout
	if toOut && format != "csv" && terminal.Is(a.out) {
		return fmt.Errorf("export %s: %w: %s output cannot go to a terminal: use -f FILE", c.Stream, errValue, format)
	}
	stream, err := client.Data.Export(ctx, &pillionv1.ExportRequest{
		Stream: c.Stream, Columns: c.Columns, Where: where, From: c.From.message(), To: c.To.message(), Format: format, Limit: int64(c.Limit),
	})
	if err != nil {
		return failed("export "+c.Stream, err)
	}
	defer stream.Close()
	if toOut {
		_, err := c.copy(stream, a.out, func(int64, int) {})
		return failed("export "+c.Stream, err)
	}
	var rows int64
	total := c.total(ctx, client)
	err = c.File.Replace(ctx, 0o666, func(file *os.File) error {
		bar := progress.New(a.err, "export "+c.Stream, progress.Count("row"))
		defer bar.End()
		var bytes int64
		rows, err = c.copy(stream, file, func(rows int64, more int) {
			bytes += int64(more)
			bar.Set(rows, total, quantity.FormatBytes(bytes))
		})
		return err
	})
	if err != nil {
		return failed("export "+c.Stream, err)
	}
	return a.written(c.File, "%d rows written to %s", rows, c.File)
}

type pieces = connect.ServerStreamForClient[pillionv1.ExportResponse]

// total is how many rows will be exported, 0 if only the server knows.
func (c *exportCmd) total(ctx context.Context, client *api.Client) int64 {
	if len(c.Where) > 0 || c.From.message() != nil || c.To.message() != nil {
		return 0
	}
	answer, err := client.Data.ListStreams(ctx, &pillionv1.ListStreamsRequest{})
	if err != nil {
		return 0 // the export will report it
	}
	stream, err := findStream(answer.Streams, c.Stream)
	if err != nil {
		return 0
	}
	if c.Limit > 0 {
		return min(stream.Rows, int64(c.Limit))
	}
	return stream.Rows
}

func (c *exportCmd) copy(stream *pieces, to io.Writer, shown func(rows int64, bytes int)) (rows int64, err error) {
	for stream.Receive() {
		piece := stream.Msg()
		if _, err := to.Write(piece.Data); err != nil {
			return rows, err
		}
		rows = max(rows, piece.Rows)
		shown(rows, len(piece.Data))
	}
	return rows, stream.Err()
}
