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
}

// hosts are those of the agents by name. It is not changed.
type hosts struct {
	byAgent map[string]Host
	nodes   map[string]string // agents by the identifier of their IOAM node
}

// SetHosts replaces what is known of the agents. An identifier that two of them claim names
// neither.
func (t *Topology) SetHosts(byAgent map[string]Host) {
	h := hosts{byAgent: byAgent, nodes: map[string]string{}}
	twice := map[string]bool{}
	for agent, host := range byAgent {
		if host.IOAMID == 0 {
			continue
		}
		id := fmt.Sprintf("0x%06x", host.IOAMID)
		twice[id] = h.nodes[id] != "" || twice[id]
		h.nodes[id] = agent
	}
	for id, is := range twice {
		if is {
			delete(h.nodes, id)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts = h
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

// clocks are those of the hops of a path between these nodes, and of the whole as the first.
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
