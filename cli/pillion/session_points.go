package pillion

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pillion.dev/api/pillionv1"
)

type sessionPointsCmd struct{}

// Help has the example.
func (sessionPointsCmd) Help() string {
	return "A session measures a point with --point NAME[:OPTION=VALUE,...][@AGENT,...]. Those that run on marks are\n" +
		"modules, which it measures with --modules NAME,...\n\nExample:\n\n  pillion session points"
}

// Run lists the points and their options, and the modules of marks.
func (c *sessionPointsCmd) Run(ctx context.Context, a *app) error {
	client, err := a.dial()
	if err != nil {
		return err
	}
	answer, err := client.Sessions.ListPoints(ctx, &pillionv1.ListPointsRequest{})
	if err != nil {
		return failed("list points", err)
	}
	t := newTable("point", "runs_on", "options", "measures")
	for _, p := range answer.Points {
		var options []string
		for _, o := range p.Options {
			options = append(options, fmt.Sprintf("%s=%s", o.Name, o.Default))
		}
		t.add(text(p.Name), text(p.Placement), text(strings.Join(options, " ")), text(p.Doc))
	}
	for _, m := range answer.Modules {
		t.add(text(m.Name), text("marks"), text(""), text(m.Doc))
	}
	return a.show(messageList(slices.Concat(answer.Points, answer.Modules)), t, nil)
}
