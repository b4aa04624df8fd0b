package pillion

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/quantity"
)

type agentsCmd struct {
	List    agentsListCmd    `cmd:"" default:"withargs" help:"List agents (the default)."`
	Show    agentsShowCmd    `cmd:"" help:"Show an agent's interfaces, clock, spool and tasks."`
	Label   agentsLabelCmd   `cmd:"" help:"Set or remove labels of an agent."`
	Approve agentsApproveCmd `cmd:"" help:"Approve labels and addresses that an agent reports."`
	Revoke  agentsRevokeCmd  `cmd:"" help:"Revoke an agent's right to connect. Its rows are kept."`
	Delete  agentsDeleteCmd  `cmd:"" help:"Delete a revoked agent, so that its name can be reused."`
}

// stateOutside stands for the state of an agent outside the scope of the token, of which only the name is known.
const stateOutside = "outside"

type agentsListCmd struct {
	repeated
	Label string `placeholder:"KEY[=VALUE]" help:"Only agents with this label."`
}

// Help has the examples.
func (agentsListCmd) Help() string {
	return "For an agent outside the token's scope that is the other end of a pair in it, only the name is known: its\nstate is outside, and the other columns are empty. --label omits such agents.\n\n" +
		"Examples:\n\n  pillion agents --watch\n  pillion agents --label site=north -o json"
}

// Run lists agents.
func (c *agentsListCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	agents, ends, err := listAgents(ctx, client, c.Label)
	if err != nil {
		return failed("list agents", err)
	}
	for _, name := range ends {
		agents = append(agents, &pillionv1.Agent{Name: name, State: stateOutside})
	}
	if len(agents) == 0 && a.format == "table" && c.Label == "" {
		a.note("no agent has joined yet: pillion token create NAME --role join creates a token for pillion-agent run")
	}
	return a.show(messageList(agents), agentTable(agents...), nil)
}

func agentTable(agents ...*pillionv1.Agent) *table {
	t := newTable("name", "state", "seen=LAST SEEN", "version", "kernel", "clock", ">clock_error_ns=CLOCK ERROR", ">tasks", ">spool_bytes=SPOOL", ">dropped_rows", "labels")
	for _, g := range agents {
		if g.State == stateOutside {
			t.add(append([]cell{text(g.Name), text(g.State)}, slices.Repeat([]cell{text("")}, len(t.columns)-2)...)...)
			continue
		}
		clock, bound := text(""), text("")
		if k := g.GetClock(); k != nil {
			clock, bound = text(cmp.Or(k.By, "none")), nanos(k.MaxErrorNs)
			if !k.Synchronised {
				clock, bound = text("unsynchronised"), text("")
			}
		}
		t.add(text(g.Name), text(g.State), ago(g.Seen), text(g.Version), text(g.Kernel), clock, bound,
			number(len(g.Tasks)), byteSize(g.GetSpool().GetBytes()), number(g.GetSpool().GetDroppedRows()), labelCell(g))
	}
	return t
}

// labelCell has the labels by which sessions select an agent and, for people, how many more wait for approval;
// labels of a revoked agent do not wait.
func labelCell(g *pillionv1.Agent) cell {
	labels := text(pairsText(g.GetLabels()))
	if n := len(g.GetClaimedLabels()); n > 0 && g.GetState() != "revoked" {
		labels.shown = strings.TrimSpace(fmt.Sprintf("%s (+%d to approve)", pairsText(g.GetLabels()), n))
	}
	return labels
}

func pairsText(pairs map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		words = append(words, key+"="+pairs[key])
	}
	return strings.Join(words, " ")
}

// originText is the labels of an agent, each with its origin.
func originText(g *pillionv1.Agent) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(g.GetLabels())) {
		words = append(words, fmt.Sprintf("%s=%s (%s)", key, g.GetLabels()[key], origin(g, key)))
	}
	return strings.Join(words, ", ")
}

// Origins of labels.
const (
	labelSet      = "set"
	labelApproved = "approved"
	labelToken    = "join token"
)

// origin says where a label comes from. An earlier server does not tell those that operators
// have set.
func origin(g *pillionv1.Agent, key string) string {
	value := g.GetLabels()[key]
	if _, set := g.GetSetLabels()[key]; set {
		return labelSet
	}
	if approved, found := g.GetApprovedLabels()[key]; found && approved == value {
		return labelApproved
	}
	if given, found := g.GetTokenLabels()[key]; found && given == value {
		return labelToken
	}
	return labelSet
}

type agentsShowCmd struct {
	repeated
	Name string `arg:"" predictor:"agent" help:"The agent."`
}

// Help has the example.
func (agentsShowCmd) Help() string { return "Example:\n\n  pillion agents show north1" }

// Run shows an agent.
func (c *agentsShowCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	answer, err := client.Agents.GetAgent(ctx, &pillionv1.GetAgentRequest{Name: c.Name})
	if err != nil {
		return failed("show agent "+c.Name, err)
	}
	g := answer.GetAgent()
	return a.show(g, agentTable(g), func(w io.Writer) error { return writeAgent(w, a.color, g) })
}

func writeAgent(w io.Writer, color bool, g *pillionv1.Agent) error {
	f := facts{}
	f.add("name", g.GetName())
	f.add("state", g.GetState())
	f.add("last seen", ago(g.GetSeen()).shown)
	f.add("started", when(g.GetStarted()).shown)
	f.add("enrolled", when(g.GetEnrolled()).shown)
	f.add("certificate", "until "+when(g.GetCertificateExpires()).shown)
	f.add("version", g.GetVersion())
	f.add("kernel", g.GetKernel())
	f.add("labels", originText(g))
	f.add("labels, not approved", pairsText(g.GetClaimedLabels()))
	f.add("approved addresses", strings.Join(g.GetApprovedAddresses(), " "))
	for _, conflict := range g.GetAddressConflicts() {
		f.add("address conflict", fmt.Sprintf("%s, which %s keeps", conflict.Address, conflict.Agent))
	}
	f.add("clock", clockText(g.GetClock()))
	if s := g.GetSpool(); s != nil {
		f.add("spool", fmt.Sprintf("%s of %s in %s; %d rows sent, %d dropped, %s rejected",
			quantity.FormatBytes(s.Bytes), quantity.FormatBytes(s.LimitBytes), quantity.Count(s.Batches, "batch"), s.SentRows, s.DroppedRows, quantity.Count(s.RejectedBatches, "batch")))
	}
	interfaces := newTable("interface", "up", ">mtu", "addresses")
	for _, i := range g.GetInterfaces() {
		interfaces.add(text(i.Name), text(fmt.Sprint(i.Up)), number(i.Mtu), text(strings.Join(i.Addresses, " ")))
	}
	return f.write(w, color, interfaces, taskTable(g.GetTasks()))
}

func clockText(k *pillionv1.Clock) string {
	if k == nil {
		return ""
	}
	if !k.Synchronised {
		return "unsynchronised: one-way delays are unreliable"
	}
	return fmt.Sprintf("within %s by %s, offset %s", quantity.FormatNanos(k.MaxErrorNs), cmp.Or(k.By, "an unknown daemon"), quantity.FormatNanos(k.OffsetNs))
}

func taskTable(tasks []*pillionv1.Task) *table {
	t := newTable("session", "agent", "role", "interface", "state", "error", "limit", "counters")
	for _, k := range tasks {
		state := "running"
		if !k.Running {
			state = cmp.Or(map[bool]string{true: "failed"}[k.Error != ""], "waiting")
		}
		t.add(text(k.Session), text(k.Agent), text(k.Role), text(k.Device), text(state), text(k.Error), text(k.Limit), text(countersText(k.Counters)))
	}
	return t
}

func countersText(counters map[string]uint64) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(counters)) {
		if counters[key] != 0 {
			words = append(words, fmt.Sprintf("%s=%d", key, counters[key]))
		}
	}
	return strings.Join(words, " ")
}

// facts are lines of a name and a value.
type facts [][2]string

// add leaves out empty values.
func (f *facts) add(name, value string) {
	if value != "" && value != "-" && value != "until -" {
		*f = append(*f, [2]string{name, clean(value)})
	}
}

// write prints the lines and below them the tables that have rows.
func (f facts) write(w io.Writer, color bool, below ...*table) error {
	width := 0
	for _, fact := range f {
		width = max(width, len(fact[0]))
	}
	for _, fact := range f {
		if _, err := fmt.Fprintf(w, "%-*s  %s\n", width, fact[0], fact[1]); err != nil {
			return err
		}
	}
	for _, t := range below {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintln(w)
		if err := t.write(w, color); err != nil {
			return err
		}
	}
	return nil
}

type agentsLabelCmd struct {
	Name   string   `arg:"" predictor:"agent" help:"The agent."`
	Labels []string `arg:"" placeholder:"KEY=VALUE" help:"Labels to set; KEY- removes one."`
	Only   bool     `help:"Remove all other labels set here."`
}

// Help has the examples.
func (agentsLabelCmd) Help() string {
	return "Sessions select agents by label. A label set here takes precedence over one with the same key that the\njoin token gave or an operator has approved.\n\n" +
		"Examples:\n\n  pillion agents label north1 site=north role=edge\n  pillion agents label north1 role-"
}

// Run sets labels.
func (c *agentsLabelCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	var away, set []string
	for _, word := range c.Labels {
		if key, ends := strings.CutSuffix(word, "-"); ends && key != "" && !strings.Contains(word, "=") {
			away = append(away, key)
			continue
		}
		set = append(set, word)
	}
	labels, err := parsePairs(set)
	if err != nil {
		return fmt.Errorf("read labels: %w", err)
	}
	if !c.Only {
		answer, err := client.Agents.GetAgent(ctx, &pillionv1.GetAgentRequest{Name: c.Name})
		if err != nil {
			return failed("label agent "+c.Name, err)
		}
		for key, value := range answer.GetAgent().GetLabels() {
			if _, given := labels[key]; !given && origin(answer.GetAgent(), key) == labelSet && !slices.Contains(away, key) {
				labels[key] = value
			}
		}
	}
	answer, err := client.Agents.SetLabels(ctx, &pillionv1.SetLabelsRequest{Name: c.Name, Labels: labels})
	if err != nil {
		return failed("label agent "+c.Name, err)
	}
	return a.show(answer.Agent, agentTable(answer.Agent), func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "labels of %s: %s\n", clean(c.Name), clean(cmp.Or(pairsText(answer.GetAgent().GetLabels()), "none")))
		return err
	})
}

type agentsRevokeCmd struct {
	Name string `arg:"" predictor:"agent" help:"The agent."`
}

// Help has the example.
func (agentsRevokeCmd) Help() string { return "Example:\n\n  pillion agents revoke north1" }

// Run revokes an agent.
func (c *agentsRevokeCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	if _, err := client.Agents.RevokeAgent(ctx, &pillionv1.RevokeAgentRequest{Name: c.Name}); err != nil {
		return failed("revoke agent "+c.Name, err)
	}
	return a.done("agent %s revoked; its rows are kept", c.Name)
}

type agentsDeleteCmd struct {
	Name string `arg:"" predictor:"agent" help:"The agent, which must be revoked."`
}

// Help has the example.
func (agentsDeleteCmd) Help() string { return "Example:\n\n  pillion agents delete north1" }

// Run deletes an agent.
func (c *agentsDeleteCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	if _, err := client.Agents.DeleteAgent(ctx, &pillionv1.DeleteAgentRequest{Name: c.Name}); err != nil {
		return failed("delete agent "+c.Name, err)
	}
	return a.done("agent %s deleted; its name can be reused", c.Name)
}
