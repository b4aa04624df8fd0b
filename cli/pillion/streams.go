package pillion

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/quantity"
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
	s, err := findStream(answer.Streams, c.Name)
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

type retentionCmd struct {
	Stream string         `arg:"" predictor:"stream" help:"The stream."`
	Age    *time.Duration `placeholder:"TIME" help:"Maximum age of rows, such as 90d; 0 for no limit."`
	Rows   *quantity.Size `placeholder:"N" help:"Maximum number of rows, such as 100M; 0 for no limit."`
	Bytes  *quantity.Size `placeholder:"SIZE" help:"Maximum size on disk (estimated), such as 20GiB; 0 for no limit."`
}

// Help has the examples.
func (retentionCmd) Help() string {
	return "Limits that are not given remain unchanged. Without options, the current limits are shown.\n\n" +
		"Examples:\n\n  pillion retention flows --age 90d --bytes 20GiB\n  pillion retention packets"
}

// Run sets the retention of a stream.
func (c *retentionCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	stream, err := c.current(ctx, client)
	if err != nil {
		return err
	}
	keep := &pillionv1.Retention{Age: stream.GetRetention().GetAge(), Rows: stream.GetRetention().GetRows(), Bytes: stream.GetRetention().GetBytes()}
	if c.Age != nil {
		keep.Age = durationpb.New(*c.Age)
	}
	if c.Rows != nil {
		keep.Rows = int64(*c.Rows)
	}
	if c.Bytes != nil {
		keep.Bytes = int64(*c.Bytes)
	}
	if c.Age != nil || c.Rows != nil || c.Bytes != nil {
		answer, err := client.Data.SetRetention(ctx, &pillionv1.SetRetentionRequest{Stream: c.Stream, Retention: keep})
		if err != nil {
			return failed("set retention of "+c.Stream, err)
		}
		stream = answer.GetStream()
	}
	t := streamTable(stream)
	return a.show(stream, t, nil)
}

func (c *retentionCmd) current(ctx context.Context, client *api.Client) (*pillionv1.Stream, error) {
	answer, err := client.Data.ListStreams(ctx, &pillionv1.ListStreamsRequest{})
	if err != nil {
		return nil, failed("set retention of "+c.Stream, err)
	}
	return findStream(answer.Streams, c.Stream)
}
