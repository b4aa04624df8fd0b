package pillion

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

type tailCmd struct {
	Streams []string `arg:"" optional:"" predictor:"stream" help:"Streams, such as flows; default: all."`
	Where   []string `sep:"none" placeholder:"COLUMN=VALUE" help:"Only rows with this value. Repeatable."`
	Columns []string `placeholder:"LIST" help:"Columns to show; default: all."`
	Count   int      `short:"n" placeholder:"N" help:"Exit after this many rows."`
}

// Help has the examples.
func (tailCmd) Help() string {
	return `Rows are shown when the archive has stored them. A lost connection is re-established; rows stored in the
meantime are not shown, but are in the archive.

Examples:

  pillion tail events
  pillion tail flows --where session=web-delay --columns time,agent,source,delay_p50_ns,lost`
}

// tailing is the state of tail.
type tailing struct {
	*app
	// columns by stream, which the server sends once.
	columns map[string][]*pillionv1.Column
	rows    *rowWriter
	shown   string // stream whose columns were printed last
	widths  []int
	missed  uint64
	count   int
}

// Run prints rows until interrupted.
func (c *tailCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	where, err := parsePairs(c.Where)
	if err != nil {
		return fmt.Errorf("read --where: %w", err)
	}
	if a.format == "csv" && len(c.Streams) != 1 {
		return fmt.Errorf("tail: %w: CSV output requires exactly one stream", errValue)
	}
	c.await(ctx, a, client)
	t := &tailing{app: a, columns: map[string][]*pillionv1.Column{}, rows: newRowWriter(a), count: c.Count}
	request := &pillionv1.TailRequest{Streams: c.Streams, Where: where, Columns: c.Columns}
	err = followTail(ctx, client, request, t.take, func(err error) {
		a.note("connection lost, reconnecting: %s", failed("tail", err))
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return failed("tail", err)
}

// await notes the streams for which it will wait, since they do not exist.
func (c *tailCmd) await(ctx context.Context, a *app, client *api.Client) {
	if len(c.Streams) == 0 {
		return
	}
	answer, err := client.Data.ListStreams(ctx, &pillionv1.ListStreamsRequest{})
	if err != nil {
		return // tail will report it
	}
	for _, name := range c.Streams {
		if _, err := findStream(answer.Streams, name); err != nil {
			a.note("there is no stream %s yet: waiting for it; pillion streams lists those that exist", name)
		}
	}
}

func (t *tailing) take(m *pillionv1.TailResponse) error {
	if m.Missed > t.missed {
		t.note("output too slow: %d rows skipped; they are in the archive", m.Missed-t.missed)
	}
	t.missed = m.Missed
	columns, fresh := m.Columns, len(m.Columns) > 0
	if fresh {
		t.columns[m.Stream] = columns
	} else {
		columns = t.columns[m.Stream]
	}
	rows := m.Rows
	if t.count > 0 {
		rows = rows[:min(len(rows), t.count)]
	}
	if err := t.print(m.Stream, columns, fresh, rows); err != nil {
		return err
	}
	if t.count > 0 {
		if t.count -= len(rows); t.count == 0 {
			return errEnough
		}
	}
	return nil
}

func (t *tailing) print(stream string, columns []*pillionv1.Column, fresh bool, rows []*pillionv1.Row) error {
	changed := stream != t.shown || fresh && !sameColumns(columns, t.rows.columns)
	if t.format != "table" {
		var head []*pillionv1.Column
		if changed || t.rows.columns == nil {
			head, t.shown = columns, stream
		}
		return t.rows.write(stream, head, rows)
	}
	if len(rows) == 0 {
		return nil
	}
	page := rowTable(columns)
	for _, row := range rows {
		page.add(rowCells(columns, row)...)
	}
	return t.page(stream, page, changed)
}

func sameColumns(a, b []*pillionv1.Column) bool {
	return slices.EqualFunc(a, b, func(a, b *pillionv1.Column) bool { return a.GetName() == b.GetName() })
}

// page prints rows below the current header, or below a new one. Columns only grow,
// so that lines stay aligned where possible.
func (t *tailing) page(stream string, page *table, changed bool) error {
	if changed || len(t.widths) != len(page.columns) {
		t.widths = nil
	}
	t.widths = page.widths(t.widths)
	if changed {
		t.shown = stream
		fmt.Fprintf(t.out, "==> %s <==\n%s\n", clean(stream), page.head(t.widths))
	}
	_, err := io.WriteString(t.out, page.body(t.widths, t.color))
	return err
}
