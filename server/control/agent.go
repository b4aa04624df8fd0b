package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pillion.dev/internal/machine"
	"pillion.dev/server/event"
	"pillion.dev/session"
)

// Connection states of agents.
const (
	Connected = "connected"
	Away      = "away"
	Revoked   = "revoked"
)

// Agent is one host that has joined.
type Agent struct {
	Name string
	// Labels by which sessions select it: labels of its join token, overridden by labels that an operator has
	// approved, and these by labels that an operator has set.
	Labels map[string]string
	// The following are the labels by origin. ClaimedLabels are the labels in its configuration that nobody has
	// approved.
	TokenLabels        map[string]string
	ApprovedLabels     map[string]string
	SetLabels          map[string]string
	Site               string // whose aggregator it is; empty: it is none
	ClaimedLabels      map[string]string
	AddressConflicts   []AddressConflict
	ApprovedAddresses  []string
	State              string // connected, away, revoked
	Enrolled           time.Time
	Seen               time.Time // zero: not since the server started
	Started            time.Time
	Version, Kernel    string
	Boot               string // boot ID of its kernel
	IOAMID             uint32 // identifier as an IOAM node; 0: it is none
	Interfaces         []session.Interface
	Clock              session.Clock
	Spool              session.Spool
	Tasks              []Task
	CertificateExpires time.Time
}

// Task is the state of one task of a session on one agent.
type Task struct {
	session.TaskState
	Agent string
}

// enrolment is the part of an agent's state that is stored on disk.
type enrolment struct {
	Name string `json:"name"`
	// Serial and Key are of the certificate that was last issued.
	Serial string `json:"serial"`
	Key    string `json:"key,omitempty"`
	// PreviousKey is the key of the certificate that was last used. It is valid until Key is used, and empty if the
	// two are the same.
	PreviousKey string    `json:"previous_key,omitempty"`
	Expires     time.Time `json:"expires"`
	Enrolled    time.Time `json:"enrolled"`
	// Number names the agent in the marks that it writes for others; 0: none is left.
	Number  uint32            `json:"number,omitempty"`
	Revoked bool              `json:"revoked,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Token is the join token with which it joined, TokenLabels those that it gave.
	Token       string            `json:"token,omitempty"`
	TokenLabels map[string]string `json:"token_labels,omitempty"`
	// Site whose aggregator it is, by its join token; no session selects it.
	Site           string            `json:"site,omitempty"`
	ApprovedLabels map[string]string `json:"approved_labels,omitempty"`
	// ApprovedAddresses are those that count as its own without a proof.
	ApprovedAddresses []netip.Prefix `json:"approved_addresses,omitempty"`
	// Since is when it began to report each of its addresses.
	Since map[string]time.Time `json:"since,omitempty"`
	// What it last reported; sessions are planned with it until it reports again.
	OwnLabels  map[string]string   `json:"own_labels,omitempty"`
	Interfaces []session.Interface `json:"interfaces,omitempty"`
	Version    string              `json:"version,omitempty"`
	Kernel     string              `json:"kernel,omitempty"`
	// Capabilities that its version states.
	Capabilities []string `json:"capabilities,omitempty"`
	// Lost has the counts of lost batches that the last event reported.
	Lost lost `json:"lost,omitzero"`
}

// lost counts batches since an agent's process started.
type lost struct {
	Instance string `json:"instance"`
	Dropped  int64  `json:"dropped,omitempty"`
	Rejected int64  `json:"rejected,omitempty"`
	Damaged  int64  `json:"damaged,omitempty"`
}

func (e enrolment) clone() enrolment {
	e.Labels, e.ApprovedLabels, e.TokenLabels = maps.Clone(e.Labels), maps.Clone(e.ApprovedLabels), maps.Clone(e.TokenLabels)
	return e // all other fields are immutable
}

// alter changes the stored state of an agent.
func (c *Control) alter(what, name string, change func(*agent) error) error {
	c.mu.Lock()
	a := c.agents[name]
	err := ErrNotFound
	var before enrolment
	if a != nil {
		before = a.enrolment.clone()
		err = change(a)
		c.changed.agent(name)
		if err == nil && !before.plannedAs(a.enrolment) {
			c.stale.sessions = true
		}
	}
	c.mu.Unlock()
	if err == nil {
		err = c.commit(func() { a.enrolment = before })
	}
	if err != nil {
		return fmt.Errorf("%s agent %q: %w", what, name, err)
	}
	return nil
}

// plannedAs reports whether sessions are planned with both in the same way.
func (e *enrolment) plannedAs(o enrolment) bool {
	return maps.Equal(e.labels(), o.labels()) && e.Revoked == o.Revoked && slices.Equal(e.ApprovedAddresses, o.ApprovedAddresses)
}

// Registered returns the number of agents, and how many could not be enrolled because that is limited.
func (c *Control) Registered() (agents int, refused uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.agents), c.unenrolled
}

// Agents returns all agents, by name.
func (c *Control) Agents() []Agent {
	c.mu.Lock()
	defer c.mu.Unlock()
	agents := make([]Agent, 0, len(c.agents))
	for _, name := range slices.Sorted(maps.Keys(c.agents)) {
		agents = append(agents, c.agents[name].view(c.agents))
	}
	return agents
}

// AgentsAfter returns at most so many agents, by name, of those whose names are after one and that have
// a label, key or key=value; more: there are others after them. Without a limit and without a label it
// returns all.
func (c *Control) AgentsAfter(after, label string, most int) (agents []Agent, more bool) {
	key, value, exact := strings.Cut(label, "=")
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name, a := range c.agents {
		if name <= after {
			continue
		}
		if key != "" {
			if held, has := a.labels()[key]; !has || exact && held != value {
				continue
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if most > 0 && len(names) > most {
		names, more = names[:most], true
	}
	for _, name := range names {
		agents = append(agents, c.agents[name].view(c.agents))
	}
	return agents, more
}

// Agent returns one agent.
func (c *Control) Agent(name string) (Agent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.agents[name]; a != nil {
		return a.view(c.agents), nil
	}
	return Agent{}, fmt.Errorf("agent %q %w", name, ErrNotFound)
}

const labelsMax = 64

// SetLabels replaces the labels that operators set on an agent. Sessions are updated.
func (c *Control) SetLabels(name string, labels map[string]string) error {
	if err := checkLabels(labels); err != nil {
		return fmt.Errorf("label agent %q: %w", name, err)
	}
	return c.alter("label", name, func(a *agent) error {
		a.Labels = maps.Clone(labels)
		return nil
	})
}

// Revoke revokes an agent's certificate and closes its connection.
func (c *Control) Revoke(name string) error {
	if err := c.recordRevocation(name); err != nil {
		return fmt.Errorf("revoke agent %q: %w", name, err)
	}
	err := c.alter("revoke", name, func(a *agent) error {
		a.Revoked = true
		return nil
	})
	if err != nil {
		return err
	}
	c.Bus.Disconnect(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.event("agent-revoked", event.Warning, name, "", "%s may no longer connect", name)
	return nil
}

// DeleteAgent deletes a revoked agent, once none of its packets can carry marks.
func (c *Control) DeleteAgent(name string) error {
	c.mu.Lock()
	a := c.agents[name]
	var err error
	switch {
	case a == nil:
		err = ErrNotFound
	case !a.Revoked:
		err = fmt.Errorf("%w: revoke it first", ErrState)
	case len(a.marking) > 0:
		err = fmt.Errorf("%w: it may still mark packets until its lease ends at %s", ErrState, a.leaseEnd().Format(time.TimeOnly))
	default:
		delete(c.agents, name)
		c.retire(a)
		c.changed.agent(name)
		c.changed.assignment(name)
		c.stale.sessions, c.stale.addresses = true, true
	}
	c.mu.Unlock()
	if err == nil {
		err = c.commit(func() {
			c.agents[name] = a
			delete(c.retired, a.Number)
			c.numbers[a.Number] = true
		})
	}
	if err != nil {
		return fmt.Errorf("delete agent %q: %w", name, err)
	}
	return nil
}

// Peer returns an agent with the addresses that no other agent has.
func (c *Control) Peer(name string) (session.Peer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agents[name] == nil {
		return session.Peer{}, fmt.Errorf("agent %q %w", name, ErrNotFound)
	}
	addresses, _ := session.Distinct(c.hosts(true))
	peer := session.Peer{Agent: name}
	for _, addr := range addresses[name] {
		peer.Addresses = append(peer.Addresses, addr.String())
	}
	return peer, nil
}

// Ask requests a trace, a check or a description of the host from an agent. Tasks are assigned
// through sessions only.
func (c *Control) Ask(ctx context.Context, name string, request session.Request) (session.Reply, error) {
	kinds := 0
	for _, is := range []bool{request.Trace != nil, request.Doctor != nil, request.Describe != nil} {
		if is {
			kinds++
		}
	}
	if request.Apply != nil || kinds != 1 {
		return session.Reply{}, fmt.Errorf("ask agent %q: %w", name, invalid("request", "request either a trace, a check or a description"))
	}
	c.mu.Lock()
	a := c.agents[name]
	err := ErrNotFound
	if a != nil {
		err = nil
		if a.Revoked {
			err = ErrRevoked
		}
	}
	c.mu.Unlock()
	var reply session.Reply
	if err == nil {
		reply, err = c.ask(ctx, name, request)
	}
	if err != nil {
		return session.Reply{}, fmt.Errorf("ask agent %q: %w", name, err)
	}
	return reply, nil
}

// Describe returns the facts of an agent's host.
func (c *Control) Describe(ctx context.Context, name string, devices []string) (map[string]string, error) {
	reply, err := c.Ask(ctx, name, session.Request{Describe: &session.Describe{Devices: devices}})
	if err == nil && reply.Error != "" {
		err = fmt.Errorf("describe agent %q: %w", name, errors.New(reply.Error))
	}
	return machine.Bound(reply.Facts), err
}

const replyMax = 4 << 20 // bytes of a reply

func (c *Control) ask(ctx context.Context, name string, request session.Request) (session.Reply, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return session.Reply{}, err
	}
	answer, err := c.Bus.Ask(ctx, name, text)
	if err != nil {
		return session.Reply{}, err
	}
	return readReply(answer)
}

func readReply(text []byte) (session.Reply, error) {
	if len(text) > replyMax {
		return session.Reply{}, fmt.Errorf("read reply: %d bytes, limit %d", len(text), replyMax)
	}
	var reply session.Reply
	if err := json.Unmarshal(text, &reply); err != nil {
		return session.Reply{}, fmt.Errorf("read reply: %w", err)
	}
	report := session.State{Tasks: reply.Tasks}
	report.Bound()
	reply.Tasks = report.Tasks
	if reply.Error != "" {
		return reply, fmt.Errorf("it answered: %s", session.Clip(reply.Error))
	}
	return reply, nil
}

// hosts returns the agents for session planning, by name.
func (c *Control) hosts(withRevoked bool) []session.Host {
	var hosts []session.Host
	for _, name := range slices.Sorted(maps.Keys(c.agents)) {
		if a := c.agents[name]; a.Site == "" && (withRevoked || !a.Revoked) {
			hosts = append(hosts, a.host())
		}
	}
	return hosts
}

// host returns the agent for session planning.
func (a *agent) host() session.Host {
	return session.Host{
		Name: a.Name, Labels: a.labels(), Connected: a.connected, Addresses: a.addresses,
		Capabilities: a.Capabilities, Conflicts: a.conflicts, Clock: a.state.Clock, Boot: a.state.Boot,
	}
}

// global returns the global unicast addresses of these interfaces, without loopback interfaces.
func global(interfaces []session.Interface) []string {
	var addresses []string
	for _, i := range interfaces {
		if i.Loopback {
			continue
		}
		for _, text := range i.Addresses {
			text, _, _ = strings.Cut(text, "/")
			if addr, err := netip.ParseAddr(text); err == nil && addr.IsGlobalUnicast() && addr.Zone() == "" && !addr.Is4In6() {
				addresses = append(addresses, addr.String())
			}
		}
	}
	return addresses
}
