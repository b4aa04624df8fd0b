package pillion

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/cli/command"
	"pillion.dev/internal/version"
)

type healthCmd struct{ repeated }

// Help has the example.
func (healthCmd) Help() string { return "No token is needed.\n\nExample:\n\n  pillion health" }

// Run requests the health of the server.
func (c *healthCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Server.Health(ctx, &pillionv1.HealthRequest{})
	if err != nil {
		return failed("get health", err)
	}
	t := newTable("part=COMPONENT", "state", "detail")
	for _, p := range answer.Parts {
		state := "ok"
		if !p.Ok {
			state = "failing"
		}
		t.add(text(p.Name), text(state), text(p.Detail))
	}
	if err := a.show(answer, t, nil); err != nil {
		return err
	}
	if answer.Status != "ok" {
		return errFailed
	}
	return nil
}

type licensesCmd struct{ command.Licenses }

// Help shows an example.
func (licensesCmd) Help() string { return "Example:\n\n  pillion licenses" }

type versionCmd struct {
	Client bool `help:"Print only the version of this program."`
}

// Help has the example.
func (versionCmd) Help() string { return "Example:\n\n  pillion version" }

// Run prints builds.
func (c *versionCmd) Run(ctx context.Context, a *app) error {
	o := object{{"client", version.String()}}
	var refusal error
	if !c.Client {
		client, err := a.dial()
		if err != nil {
			return err
		}
		answer, err := client.Server.BuildInfo(ctx, &pillionv1.BuildInfoRequest{})
		if err != nil {
			refusal = failed("get version of "+client.URL, err)
		} else {
			o = append(o, pair{"server", messageValue(answer.ProtoReflect())})
			defer func() { a.client = client }()
			return c.print(a, o, answer)
		}
	}
	if err := c.print(a, o, nil); err != nil {
		return err
	}
	return refusal
}

func (c *versionCmd) print(a *app, o object, server *pillionv1.BuildInfoResponse) error {
	t := newTable("program", "build", "started")
	t.add(text("pillion"), text(version.String()), text(""))
	if server != nil {
		t.add(text("pillion-server"), text(fmt.Sprintf("%s, commit %s, %s", server.Version, cmp.Or(server.Revision, "unknown"), server.Go)), when(server.Started))
	}
	return a.show(o, t, func(w io.Writer) error {
		for _, row := range t.rows {
			fmt.Fprintln(w, row[0].plain, clean(row[1].plain))
		}
		return nil
	})
}

type eventsCmd struct {
	repeated
	From  moment `placeholder:"TIME" help:"Events after this time; default: -1d."`
	To    moment `placeholder:"TIME" help:"Events before this time; default: now."`
	Kind  string `placeholder:"NAME" help:"Only events of this kind, such as agent-lost."`
	Limit uint32 `default:"200" placeholder:"N" help:"Maximum number of events, newest first (${default})."`
}

// Help has the examples.
func (eventsCmd) Help() string {
	return "Events are listed oldest first; pillion tail events prints new events as they occur.\n\nExamples:\n\n  pillion events\n  pillion events --from -7d --kind path-changed"
}

// Run lists events.
func (c *eventsCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Server.ListEvents(ctx, &pillionv1.ListEventsRequest{
		From: c.From.message(), To: c.To.message(), Kind: c.Kind, Limit: c.Limit,
	})
	if err != nil {
		return failed("list events", err)
	}
	slices.Reverse(answer.Events)
	t := newTable("time", "level", "kind", "agent", "session", "message")
	for _, e := range answer.Events {
		t.add(when(e.Time), text(e.Level), text(e.Kind), text(hostsOf(e)), text(e.Session), text(e.Message))
	}
	return a.show(messageList(answer.Events), t, nil)
}

// hostsOf names the agent of an event, or both agents of a pair.
func hostsOf(e *pillionv1.Event) string {
	if e.Peer == "" {
		return e.Agent
	}
	return e.Agent + " > " + e.Peer
}
