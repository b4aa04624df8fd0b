package topology

import (
	"fmt"
	"net/netip"

	"pillion.dev/session"
)

// Host is what is known of an agent's host.
type Host struct {
	// IOAMID identifies it as an IOAM node; 0: it is none.
	IOAMID uint32
	// Boot is the boot ID of its kernel: hosts that share it share a clock.
	Boot string
	// ClockErrorNs bounds the error of its clock.
	ClockErrorNs int64
	Interfaces   []session.Interface
	// Disputed are addresses of its interfaces that another agent keeps.
	Disputed []string
}

// hosts are the agents' hosts by name. It is not changed.
type hosts struct {
	byAgent map[string]Host
	nodes   map[string]string // agents by the identifier of their IOAM node
}

// SetHosts replaces what is known of the agents. An agent knows all addresses of its host, so that
// a router with an agent is one node. An identifier or an address that two of them claim names neither.
func (t *Topology) SetHosts(byAgent map[string]Host) {
	h := hosts{byAgent: byAgent, nodes: map[string]string{}}
	owners := map[netip.Addr]string{}
	for agent, host := range byAgent {
		if host.IOAMID != 0 {
			claim(h.nodes, fmt.Sprintf("0x%06x", host.IOAMID), agent)
		}
		for _, address := range host.addresses() {
			claim(owners, address, agent)
		}
	}
	settle(h.nodes)
	settle(owners)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts, t.agents = h, owners
}

// contested stands for several claimants; no agent has the name.
const contested = "\x00"

// claim enters an agent as the only one that has something.
func claim[K comparable](owners map[K]string, what K, agent string) {
	if owner, claimed := owners[what]; claimed && owner != agent {
		agent = contested
	}
	owners[what] = agent
}

// settle removes the entries that several agents claim.
func settle[K comparable](owners map[K]string) {
	for what, agent := range owners {
		if agent == contested {
			delete(owners, what)
		}
	}
}

// addresses are its interfaces' addresses that no other agent has, too. Addresses that are local to a
// link, which many hosts share, do not name a host.
func (h *Host) addresses() []netip.Addr {
	disputed := make(map[netip.Addr]bool, len(h.Disputed))
	for _, text := range h.Disputed {
		if address, err := netip.ParseAddr(text); err == nil {
			disputed[address.Unmap()] = true
		}
	}
	var addresses []netip.Addr
	for _, i := range h.Interfaces {
		for _, text := range i.Addresses {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				continue
			}
			if address := prefix.Addr().Unmap().WithZone(""); address.IsGlobalUnicast() && !disputed[address] {
				addresses = append(addresses, address)
			}
		}
	}
	return addresses
}

// clock bounds the error of a delay from one agent to another that is due to their clocks.
func (h hosts) clock(from, to string) (ns int64, known bool) {
	a, here := h.byAgent[from]
	b, there := h.byAgent[to]
	switch {
	case !here || !there:
		return 0, false
	case a.Boot != "" && a.Boot == b.Boot:
		return 0, true
	}
	return a.ClockErrorNs + b.ClockErrorNs, true
}

// clocked adds what is known of the clocks of the agents at two nodes, unless the agent that
// measured the delay did.
func (b *builder) clocked(delay OneWay, from, to int) OneWay {
	if !delay.ClockKnown {
		delay.ClockErrorNs, delay.ClockKnown = b.hosts.clock(b.nodes[from].Agent, b.nodes[to].Agent)
	}
	return delay
}

// clocks returns a function that completes the delay of a hop of a path between these nodes by the error of the
// clocks; hop 0 is the whole path.
func (b *builder) clocks(places []int) func(hop int, delay OneWay) OneWay {
	return func(hop int, delay OneWay) OneWay {
		if hop == 0 {
			return b.clocked(delay, places[0], places[len(places)-1])
		}
		return b.clocked(delay, places[hop-1], places[hop])
	}
}

// network reports whether an interface is on the same network as an address.
func network(i session.Interface, address string) bool {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	for _, text := range i.Addresses {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Contains(a.Unmap()) {
			return true
		}
	}
	return false
}
