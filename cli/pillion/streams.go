package pillion

import (
	"context"
	"fmt"
	"io"
	"strings"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

type streamsCmd struct {
	repeated
	Name string `arg:"" optional:"" predictor:"stream" help:"Show the columns of this stream."`
}

// Help has the examples.
func (streamsCmd) Help() string { return "Examples:\n\n  pillion streams\n  pillion streams flows" }

// Run lists streams, or the columns of one.
func (c *streamsCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Data.ListStreams(ctx, &pillionv1.ListStreamsRequest{})
	if err != nil {
		return failed("list streams", err)
	}
	if c.Name == "" {
		return a.show(messageList(answer.Streams), streamTable(answer.Streams...), nil)
	}
	s, err := findStream(append(answer.Streams, answer.RollUps...), c.Name)
	if err != nil {
		return err
	}
	t := newTable("column", "type", "unit", "description")
	for _, column := range s.Columns {
		t.add(text(column.Name), text(column.Type), text(column.Unit), text(column.Doc))
	}
	return a.show(s, t, func(w io.Writer) error {
		fmt.Fprintf(w, "%s: %s\n\n", clean(s.Name), clean(s.Doc))
		return t.write(w, a.color)
	})
}

func findStream(streams []*pillionv1.Stream, name string) (*pillionv1.Stream, error) {
	var names []string
	for _, s := range streams {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("find stream: %w: %q is not one of %s", errValue, name, strings.Join(names, ", "))
}

func streamTable(streams ...*pillionv1.Stream) *table {
	t := newTable("name", ">rows", "first", "last", "keep_age", ">keep_rows", ">keep_bytes", "description")
	for _, s := range streams {
		r := s.GetRetention()
		rows, bytes := text(""), text("")
		if r.GetRows() > 0 {
			rows = number(r.Rows)
		}
		if r.GetBytes() > 0 {
			bytes = byteSize(r.Bytes)
		}
		age := text("")
		if r.GetAge().AsDuration() > 0 {
			age = length(r.Age)
		}
		t.add(text(s.GetName()), number(s.GetRows()), when(s.GetFirst()), when(s.GetLast()), age, rows, bytes, text(s.GetDoc()))
	}
	return t
}
