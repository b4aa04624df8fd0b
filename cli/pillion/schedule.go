package pillion

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

type scheduleCmd struct {
	repeated
	From    moment `placeholder:"TIME" help:"Runs after this time; default: -1d."`
	To      moment `placeholder:"TIME" help:"Runs before this time; default: +7d."`
	Session string `placeholder:"NAME" predictor:"session" help:"Only runs of this session."`
}

// Help has the examples.
func (scheduleCmd) Help() string {
	return "A run that could not start because the server was down has the state missed, with the reason.\n\n" +
		"Examples:\n\n  pillion schedule\n  pillion schedule --from now --to +30d --session office"
}

// Run lists runs.
func (c *scheduleCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	request := &pillionv1.ListRunsRequest{From: c.From.message(), To: c.To.message(), Session: c.Session}
	if request.From == nil {
		request.From = timestamppb.New(time.Now().Add(-24 * time.Hour))
	}
	if request.To == nil {
		request.To = timestamppb.New(time.Now().Add(7 * 24 * time.Hour))
	}
	request.PageSize = api.PageSize
	runs, err := api.Pages(func(token string) ([]*pillionv1.Run, string, error) {
		request.PageToken = token
		page, err := client.Sessions.ListRuns(ctx, request)
		return page.GetRuns(), page.GetNextPageToken(), err
	})
	if err != nil {
		return failed("list runs", err)
	}
	return a.show(messageList(runs), runTable(runs), nil)
}

func runTable(runs []*pillionv1.Run) *table {
	t := newTable("session", "start", "end", "state", "reason")
	for _, r := range runs {
		t.add(text(r.Session), when(r.Start), when(r.End), text(r.State), text(r.Reason))
	}
	return t
}

// sorted gives a map's entries by key.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
