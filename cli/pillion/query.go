package pillion

import (
	"context"
	"fmt"
	"io"
	"strings"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/csvfile"
	"pillion.dev/internal/quantity"
)

type queryCmd struct {
	SQL   string        `arg:"" name:"sql" help:"One read-only statement; - reads it from standard input."`
	Limit quantity.Size `default:"10000" placeholder:"N" help:"Maximum number of rows (${default})."`
}

// Help has the examples.
func (queryCmd) Help() string {
	return `Streams are tables; pillion streams NAME shows their columns. With -o json each row is an object on a
line of its own.

Examples:

  pillion query 'SELECT source, agent, avg(delay_p50_ns) FROM flows GROUP BY ALL'
  pillion query - -o csv --limit 1M`
}

// Run queries the archive.
func (c *queryCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	sql := c.SQL
	if sql == "-" {
		text, err := io.ReadAll(io.LimitReader(a.in, 1<<20))
		if err != nil {
			return fmt.Errorf("read statement: %w", err)
		}
		sql = string(text)
	}
	if strings.TrimSpace(sql) == "" {
		return fmt.Errorf("query: %w: the statement is empty", errValue)
	}
	stream, err := client.Data.Query(ctx, &pillionv1.QueryRequest{Sql: sql, Limit: int64(c.Limit)})
	if err != nil {
		return failed("query", err)
	}
	defer stream.Close()
	rows := newRowWriter(a)
	truncated := false
	for stream.Receive() {
		truncated = truncated || stream.Msg().Truncated
		if err := rows.write("", stream.Msg().Columns, stream.Msg().Rows); err != nil {
			return err
		}
	}
	if err := stream.Err(); err != nil {
		return failed("query", err)
	}
	if err := rows.end(); err != nil {
		return err
	}
	if truncated {
		a.note("only the first %d rows are shown: use --limit for more", c.Limit)
	}
	return nil
}

// rowWriter prints rows as they arrive; a table is printed at the end.
type rowWriter struct {
	*app
	columns []*pillionv1.Column
	table   *table
	csv     *csvfile.Writer
}

func newRowWriter(a *app) *rowWriter {
	return &rowWriter{app: a, csv: csvfile.NewWriter(a.out)}
}

// write prints rows; columns may be left out where they are as before. A stream
// becomes the first value of each row in JSON.
func (r *rowWriter) write(stream string, columns []*pillionv1.Column, rows []*pillionv1.Row) error {
	if len(columns) > 0 {
		r.columns = columns
		r.table = rowTable(columns)
		if r.format == "csv" {
			if err := r.table.writeCSV(r.out); err != nil {
				return err
			}
		}
	}
	if r.table == nil {
		if len(rows) > 0 {
			return fmt.Errorf("read rows: the server sent rows before their columns")
		}
		return nil
	}
	for _, row := range rows {
		if err := r.writeRow(stream, row); err != nil {
			return fmt.Errorf("write row: %w", err)
		}
	}
	if r.format == "csv" {
		return r.csv.Flush()
	}
	return nil
}

func (r *rowWriter) writeRow(stream string, row *pillionv1.Row) error {
	switch r.format {
	case "json":
		o := rowJSON(r.columns, row)
		if stream != "" {
			o = append(object{{"stream", stream}}, o...)
		}
		return writeJSONLine(r.out, o)
	case "csv":
		csvLine(r.csv, rowCells(r.columns, row))
		return nil
	}
	r.table.add(rowCells(r.columns, row)...)
	return nil
}

// end prints the table.
func (r *rowWriter) end() error {
	if r.format != "table" || r.table == nil {
		return nil
	}
	return r.table.write(r.out, r.color)
}
