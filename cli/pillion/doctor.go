package pillion

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"connectrpc.com/connect"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/cli/terminal"
	"pillion.dev/session"
)

type doctorCmd struct {
	Agents  []string `arg:"" optional:"" predictor:"agent" help:"Agents to check; two of them: the way between them, in both directions. Default: all connected."`
	Peer    []string `placeholder:"AGENT" predictor:"agent" help:"Agents, by name, that must be reachable from them; default: all connected. With it, two agents are checked as any others."`
	Measure bool     `help:"Between two agents: where no session measures a direction, run one for at most a minute."`
}

// Help has the examples.
func (doctorCmd) Help() string {
	return `Agents check kernel, privileges, clock, disk and memory, network interfaces with their offloads and BPF
programs of other software, and whether their peers are reachable. The exit code is 1 if a check fails.

With two agents the whole way between them is checked, in both directions: connections and versions, both hosts,
clocks, whether a session is possible, route, room for marks, whether marks arrive, and the routers on the path.
Whether marks arrive is known from the last minute of a session that measures the pair, or with --measure.

Examples:

  pillion doctor
  pillion doctor north1 --peer south1
  pillion doctor north1 south1
  pillion doctor north1 south1 --measure`
}

const (
	levelOK, levelWarning, levelError = session.LevelOK, session.LevelWarning, session.LevelError

	stateConnected = "connected"
)

// finding is the result of one check of an agent, or of the way between two.
type finding struct {
	where string
	*pillionv1.Check
}

// Run lets agents check their hosts.
func (c *doctorCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	for _, name := range slices.Concat(c.Agents, c.Peer) {
		if _, err := netip.ParseAddr(name); err == nil {
			return fmt.Errorf("read agents: %w: %s is an address: use the name of an agent, which pillion agents lists; pillion-agent doctor --peer takes addresses", errValue, name)
		}
	}
	if len(c.Agents) == 2 && len(c.Peer) == 0 {
		found, err := c.between(ctx, a, c.Agents[0], c.Agents[1])
		if err != nil {
			return err
		}
		return a.findings("where", found)
	}
	if c.Measure {
		return fmt.Errorf("read options: %w: --measure needs two agents, and no --peer", errValue)
	}
	names := c.Agents
	if len(names) == 0 {
		agents, _, err := listAgents(ctx, client, "")
		if err != nil {
			return failed("list agents", err)
		}
		for _, g := range agents {
			if g.State == stateConnected {
				names = append(names, g.Name)
			}
		}
		if len(names) == 0 {
			return fmt.Errorf("check agents: no agent is connected")
		}
	}
	var found []finding
	for _, name := range names {
		a.progress("checking " + name)
		checks, err := checkAgent(ctx, client, name, c.Peer)
		a.progress("")
		if err != nil {
			return err
		}
		for _, k := range checks {
			found = append(found, finding{name, k})
		}
	}
	return a.findings("agent", found)
}

// findings prints the results of checks. An error among them is a failure.
func (a *app) findings(where string, found []finding) error {
	t := newTable(where, "check", "level", "found=RESULT", "advice")
	list, bad := []any{}, false
	for _, k := range found {
		bad = bad || k.Level == levelError
		t.add(text(k.where), text(k.Name), text(k.Level), text(k.Found), text(k.Advice))
		list = append(list, append(object{{where, k.where}}, messageValue(k.ProtoReflect()).(object)...))
	}
	if err := a.show(list, t, a.onTerminal(t, "found", "advice")); err != nil || !bad {
		return err
	}
	return errFailed
}

// progress shows what a command waits for, on a terminal; empty: nothing any more.
func (a *app) progress(what string) {
	if terminal.Is(a.err) {
		fmt.Fprintf(a.err, "\r%s\x1b[K", clean(what))
	}
}

// checkAgent runs the checks on one agent. No response is a finding, not a failure.
func checkAgent(ctx context.Context, client *api.Client, name string, peers []string) ([]*pillionv1.Check, error) {
	answer, err := client.Agents.CheckAgent(ctx, &pillionv1.CheckAgentRequest{Name: name, Peers: peers})
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeFailedPrecondition:
		if err != nil && ctx.Err() == nil && reached(err) {
			return []*pillionv1.Check{{Name: "agent", Level: levelError, Found: failed("check", err).Error(), Advice: startAdvice}}, nil
		}
	}
	if err != nil {
		return nil, failed("check agent "+name, err)
	}
	return answer.Checks, nil
}

const startAdvice = "check that pillion-agent is running there: systemctl status pillion-agent"

// reached reports whether the server returned the error.
func reached(err error) bool { return connect.IsWireError(err) }

// between checks the way between two agents.
func (c *doctorCmd) between(ctx context.Context, a *app, first, second string) ([]finding, error) {
	if first == second {
		return nil, fmt.Errorf("read agents: %w: %s is named twice", errValue, first)
	}
	defer a.progress("")
	a.progress("checking the way between " + first + " and " + second)
	w, err := gatherWay(ctx, a.client, first, second)
	if err != nil {
		return nil, err
	}
	if c.Measure {
		a.progress("measuring between " + first + " and " + second)
		if err := w.measure(ctx, a.client, measureTime); err != nil {
			return nil, err
		}
	}
	return w.findings(), nil
}
