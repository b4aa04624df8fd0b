package control

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"pillion.dev/session"
)

// stale is what has changed since the last round: rounds compute again only what depends on that, as
// there may be many thousands of agents that do not change.
type stale struct {
	// sessions: agents have joined or left, or their labels, capabilities or approvals have
	// changed, or a session has: the pairs of any session may differ.
	sessions bool
	// everyone: the assignments of all agents may differ, even if no tasks do.
	everyone bool
	// addresses: an agent has others, or who keeps one that several agents report may differ.
	addresses bool
	// agents whose connection, tasks, assignment or links have changed.
	agents map[string]bool
}

// plan is what rounds know of the agents and sessions until these change.
type plan struct {
	// done: a round has computed all assignments since the start.
	done bool
	// known are all agents, by name; hosts are those that are not revoked.
	known, hosts []session.Host
	byName       session.Hosts // of known
	addresses    session.Addresses
	// sharing are the agents that report addresses which others report, too.
	sharing map[string]bool
	// order of the sessions, by precedence.
	order []*record
}

// touch lets the next round consider the agent and its sessions.
func (c *Control) touch(a *agent) { c.stale.agents[a.Name] = true }

// touchConnection does so after the connection of an agent began or ended. That may change who
// keeps an address.
func (c *Control) touchConnection(a *agent) {
	c.touch(a)
	if c.plan.sharing[a.Name] {
		c.stale.addresses = true
	}
}

// replan brings the plan up to date, and returns the sessions whose tasks may differ, by
// precedence. Agents whose addresses are others than before are added to those that changed.
func (c *Control) replan(changed *stale) []*record {
	p := &c.plan
	switch {
	case changed.sessions:
		p.known = c.hosts(true)
		p.hosts = c.withoutRevoked(p.known)
		p.byName = session.ByName(p.known)
	case changed.addresses || len(changed.agents) > 0:
		p.known = slices.Clone(p.known) // the slice of the last round may be in use
		for name := range changed.agents {
			i, found := slices.BinarySearchFunc(p.known, name, func(h session.Host, name string) int { return strings.Compare(h.Name, name) })
			if a := c.agents[name]; found && a != nil {
				p.known[i] = a.host()
				p.byName[name] = p.known[i]
			}
		}
		p.hosts = c.withoutRevoked(p.known)
	}
	if changed.sessions || changed.addresses {
		before := p.addresses
		p.addresses, _ = session.Distinct(p.known)
		for _, host := range p.known {
			if !slices.Equal(before[host.Name], p.addresses[host.Name]) {
				changed.agents[host.Name] = true
			}
		}
	}
	if changed.sessions {
		p.order = c.inOrder()
		c.resolve(p.hosts)
		return p.order
	}
	var affected []*record
	for _, r := range p.order {
		for name := range smaller(r.members, changed.agents) {
			if r.members[name] && changed.agents[name] {
				affected = append(affected, r)
				break
			}
		}
	}
	return affected
}

// withoutRevoked returns the hosts whose agents are not revoked.
func (c *Control) withoutRevoked(hosts []session.Host) []session.Host {
	return slices.DeleteFunc(slices.Clone(hosts), func(h session.Host) bool { return c.agents[h.Name] == nil || c.agents[h.Name].Revoked })
}

// smaller returns the keys of the map that has fewer.
func smaller[A, B any](a map[string]A, b map[string]B) iter.Seq[string] {
	if len(a) < len(b) {
		return maps.Keys(a)
	}
	return maps.Keys(b)
}
