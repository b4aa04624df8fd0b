package runner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"pillion.dev/internal/quantity"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/source"
	"pillion.dev/session"
)

// edges are the prefixes of the hosts behind peers, by agent: those that forward.
type edges map[string][]netip.Prefix

func edgesOf(peers []session.Peer) edges {
	found := edges{}
	for _, peer := range peers {
		if len(peer.Prefixes) > 0 {
			found[peer.Agent] = peer.Ends()
		}
	}
	return found
}

// elsewhere says which prefixes packets leave for by another device than for the edge before them:
// these are not marked. byDevice are the edges' addresses by the device that packets to them leave by.
func (e edges) elsewhere(byDevice map[string]map[netip.Addr]string) string {
	var texts []string
	for _, agent := range slices.Sorted(maps.Keys(e)) {
		for _, prefix := range e[agent] {
			device, err := deviceTo(prefix)
			if errors.Is(err, errSelf) {
				continue
			}
			marked := slices.ContainsFunc(slices.Collect(maps.Values(byDevice[device])), func(peer string) bool { return peer == agent })
			switch {
			case err != nil:
				texts = append(texts, fmt.Sprintf("%v behind %s: %v", prefix, agent, err))
			case !marked:
				texts = append(texts, fmt.Sprintf("packets to %v leave by %s, not by the interface to %s, and are not marked: set the interface of this agent, in a session of their own if need be", prefix, device, agent))
			}
		}
	}
	return strings.Join(texts, "; ")
}

// deviceTo returns the device by which packets to a prefix leave. The first address of a network may belong to no
// host, and the next ones to this host.
func deviceTo(prefix netip.Prefix) (device string, err error) {
	address := prefix.Addr()
	for range 4 {
		if !prefix.IsSingleIP() {
			address = address.Next()
		}
		if !prefix.Contains(address) {
			break
		}
		if device, err = routeDevice(address); !errors.Is(err, errSelf) {
			break
		}
	}
	return device, err
}

// agentOf returns the peer that marked packets of a flow; empty: none.
func (t *destinationTask) agentOf(key flow.Key) string {
	if key.Ingress != 0 {
		for agent, number := range t.numbers {
			if number == key.Ingress && contains(t.edges[agent], key.Src) {
				return agent
			}
		}
		return ""
	}
	agent := t.peers[key.Src]
	if agent != "" && t.edges[agent] == nil {
		return agent
	}
	for agent, prefixes := range t.edges {
		if t.numbers[agent] == 0 && contains(prefixes, key.Src) {
			return agent
		}
	}
	return "" // an edge does not mark packets of its own
}

// numbersOf returns the numbers by which marks name peers that forward, by agent.
func numbersOf(peers []session.Peer) map[string]uint32 {
	numbers := map[string]uint32{}
	for _, peer := range peers {
		if peer.Number != 0 && len(peer.Prefixes) > 0 {
			numbers[peer.Agent] = peer.Number
		}
	}
	return numbers
}

// leadsTo reports whether packets to an address are measured: on an edge those to the hosts
// behind it.
func (t *destinationTask) leadsTo(address netip.Addr) bool {
	return len(t.Transit) == 0 || contains(t.behind, address)
}

// origin is what marks are attributed by: the number of the agent that forwarded the packet, or
// else the source of the packet.
type origin struct {
	prefix netip.Prefix
	number uint32
}

// origins are what the marks of each peer are attributed by. A mark that names no agent is not of
// an edge with a number: it may be of a host behind that edge, and is meant for another one.
func (t *destinationTask) origins() map[origin]string {
	origins := map[origin]string{}
	for address, agent := range t.peers {
		if t.numbers[agent] == 0 {
			origins[origin{prefix: netip.PrefixFrom(address, address.BitLen())}] = agent
		}
	}
	for agent, behind := range t.edges {
		if number := t.numbers[agent]; number != 0 {
			origins[origin{number: number}] = agent
			continue
		}
		for _, prefix := range behind {
			origins[origin{prefix: prefix}] = agent
		}
	}
	return origins
}

// ownOf are the prefixes of hosts behind this one for which any of the sessions reads marks.
func ownOf(tasks []destinationTask) (own []netip.Prefix) {
	for _, task := range tasks {
		own = append(own, task.behind...)
	}
	slices.SortFunc(own, comparePrefixes)
	return slices.Compact(own)
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// followOwn applies a change of them.
func (d *deviceDestination) followOwn(tasks []destinationTask) error {
	if tasks[0].local != nil {
		return nil
	}
	return d.probe.SetOwn(ownOf(tasks))
}

// overlapLimit says that hosts, or other edges, have marked packets that an edge forwards.
func overlapLimit(task sourceTask, tally source.Tally) string {
	n := tally.Skipped["existing_option"]
	if n == 0 || len(task.Transit) == 0 {
		return ""
	}
	return fmt.Sprintf("%s of hosts behind this one carried the mark of another source, or destination options, already: they are not marked again; "+
		"where segments overlap, name this agent as a waypoint of the other session to divide its delay", quantity.Count(n, "packet"))
}

func contains(prefixes []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
}

// endsOf returns what packets to these addresses of peers, or from them, have as addresses: for
// each peer that forwards the prefixes behind it, once.
func (t *sourceTask) endsOf(addresses []netip.Addr) (ends []netip.Prefix) {
	seen := map[string]bool{}
	for _, address := range addresses {
		agent := t.peers[address]
		prefixes := t.edges[agent]
		if prefixes == nil {
			ends = append(ends, netip.PrefixFrom(address, address.BitLen()))
		} else if !seen[agent] {
			seen[agent] = true
			ends = append(ends, prefixes...)
		}
	}
	return ends
}
