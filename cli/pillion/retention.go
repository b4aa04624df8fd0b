package pillion

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/quantity"
)

type retentionCmd struct {
	Stream string         `arg:"" optional:"" predictor:"retained" help:"The stream or roll-up; default: list all."`
	Age    *time.Duration `placeholder:"TIME" help:"Maximum age of rows, such as 90d; 0 for no limit."`
	Rows   *quantity.Size `placeholder:"N" help:"Maximum number of rows, such as 100M; 0 for no limit."`
	Bytes  *quantity.Size `placeholder:"SIZE" help:"Maximum size on disk (estimated), such as 20GiB; 0 for no limit."`
}

// Help has the examples.
func (retentionCmd) Help() string {
	return "Limits that are not given remain unchanged. Without options, the current limits are shown. Roll-ups of\n" +
		"flows, which an archive in ClickHouse has, are limited by age only.\n\n" +
		"Examples:\n\n  pillion retention\n  pillion retention flows --age 90d --bytes 20GiB\n  pillion retention flows_1m --age 60d"
}

// Run lists all limits, or shows or sets the limits of a stream or roll-up.
func (c *retentionCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	change := c.Age != nil || c.Rows != nil || c.Bytes != nil
	if c.Stream == "" && change {
		return fmt.Errorf("set retention: %w: name the stream whose limits are to be set", errValue)
	}
	all, err := listRetained(ctx, client)
	if err != nil {
		return failed("list streams", err)
	}
	if c.Stream == "" {
		return a.show(messageList(all), streamTable(all...), nil)
	}
	stream, err := findStream(all, c.Stream)
	if err != nil {
		return err
	}
	if change {
		answer, err := client.Data.SetRetention(ctx, &pillionv1.SetRetentionRequest{Stream: c.Stream, Retention: c.changed(stream.GetRetention())})
		if err != nil {
			return failed("set retention of "+c.Stream, err)
		}
		stream = answer.GetStream()
	}
	return a.show(stream, streamTable(stream), nil)
}

// changed are limits with the options that are given.
func (c *retentionCmd) changed(r *pillionv1.Retention) *pillionv1.Retention {
	keep := &pillionv1.Retention{Age: r.GetAge(), Rows: r.GetRows(), Bytes: r.GetBytes()}
	if c.Age != nil {
		keep.Age = durationpb.New(*c.Age)
	}
	if c.Rows != nil {
		keep.Rows = int64(*c.Rows)
	}
	if c.Bytes != nil {
		keep.Bytes = int64(*c.Bytes)
	}
	return keep
}

// listRetained lists what has a retention: streams, then roll-ups.
func listRetained(ctx context.Context, client *api.Client) ([]*pillionv1.Stream, error) {
	answer, err := client.Data.ListStreams(ctx, &pillionv1.ListStreamsRequest{})
	return append(answer.GetStreams(), answer.GetRollUps()...), err
}
