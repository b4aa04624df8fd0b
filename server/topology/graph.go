package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pillion.dev/session"
)

// Kinds of nodes.
const (
	Agent   = "agent"
	Router  = "router"
	Unknown = "unknown"
)

// Graph is all paths put together. Everything in it is in a fixed order.
type Graph struct {
	Nodes []Node
	Edges []Edge
	Paths []Path
}

// Node is a host, a router, or a hop that did not answer.
type Node struct {
	ID   string
	Kind string
	// Agent is its name, for the kind Agent.
	Agent string
	// Addresses of an agent are all of them; a router has one, an unknown hop none.
	Addresses []string
}

// Edge joins two nodes in the direction of the traced packets.
type Edge struct {
	From, To string
	// RTT is the difference of the least round-trip times to both ends, and of several
	// paths the least. It holds the way back as well, so it may be negative. Measured
	// says that both ends answered; without it RTT means nothing.
	RTT      time.Duration
	Measured bool
	Seen     time.Time
}

// Path from one agent to another, as it was traced last.
type Path struct {
	Source      string
	Destination string
	Address     string
	Protocol    string
	// Nodes are the ids from the source to the last hop: one more than Hops.
	Nodes   []string
	Reached bool
	Time    time.Time
	// Changed is when the present route was first seen.
	Changed time.Time
	// Hops has one for each TTL from 1. It must not be changed.
	Hops []session.TraceHop
}

// Graph makes the graph of the paths that a session traced in the last day; the empty
// name means all paths, and all agents besides.
func (t *Topology) Graph(name string) Graph {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	b := builder{topology: t, nodes: map[string]*Node{}, edges: map[[2]string]*Edge{}, addresses: t.addresses()}
	if name == "" {
		for _, agent := range t.agents {
			b.agent(agent)
		}
	}
	now := t.now()
	for element := t.order.Front(); element != nil; element = element.Next() {
		if p := element.Value.(*path); p.in(name, now) && len(p.hops) > 0 {
			b.add(p)
		}
	}
	return b.graph()
}

// addresses of each agent, in order.
func (t *Topology) addresses() map[string][]string {
	sorted := make([]netip.Addr, 0, len(t.agents))
	for address := range t.agents {
		sorted = append(sorted, address)
	}
	slices.SortFunc(sorted, netip.Addr.Compare)
	addresses := map[string][]string{}
	for _, address := range sorted {
		agent := t.agents[address]
		addresses[agent] = append(addresses[agent], address.String())
	}
	return addresses
}

type builder struct {
	topology  *Topology
	addresses map[string][]string
	nodes     map[string]*Node
	edges     map[[2]string]*Edge
	paths     []Path
}

func (b *builder) agent(name string) string {
	id := Agent + ":" + name
	if b.nodes[id] == nil {
		b.nodes[id] = &Node{ID: id, Kind: Agent, Agent: name, Addresses: b.addresses[name]}
	}
	return id
}

func (b *builder) at(address netip.Addr) string {
	if agent := b.topology.agents[address]; agent != "" {
		return b.agent(agent)
	}
	id := Router + ":" + address.String()
	if b.nodes[id] == nil {
		b.nodes[id] = &Node{ID: id, Kind: Router, Addresses: []string{address.String()}}
	}
	return id
}

func (b *builder) add(p *path) {
	ids := b.hops(p)
	for i := range p.hops {
		b.edge(p, i, ids[i], ids[i+1])
	}
	if p.destination != "" {
		b.agent(p.destination) // it may not have been reached
	}
	b.paths = append(b.paths, Path{
		Source: p.source, Destination: p.destination, Address: p.address, Protocol: p.protocol,
		Nodes: ids, Reached: p.result.Reached, Time: p.result.Time, Changed: p.known.changed, Hops: p.hops,
	})
}

// hops makes nodes of the source and all hops, and returns their ids.
func (b *builder) hops(p *path) []string {
	ids := make([]string, 1, len(p.hops)+1)
	ids[0] = b.agent(p.source)
	for i, address := range p.route.hops {
		switch {
		case !address.IsValid():
			ids = append(ids, "")
		case p.result.Reached && i == len(p.hops)-1 && p.destination != "":
			ids = append(ids, b.agent(p.destination)) // whatever address it answers from
		default:
			ids = append(ids, b.at(address))
		}
	}
	for i := 1; i < len(ids); i++ {
		if ids[i] != "" {
			continue
		}
		end := i
		for end < len(ids) && ids[end] == "" {
			end++
		}
		next := "to:" + or(p.destination, p.address)
		if end < len(ids) {
			next = ids[end]
		}
		b.unknown(ids, i, end, next)
	}
	return ids
}

// unknown names the silent hops from begin to before end by their place between
// neighbours that are known.
func (b *builder) unknown(ids []string, begin, end int, next string) {
	previous := ids[begin-1]
	for i := begin; i < end; i++ {
		ids[i] = fmt.Sprintf("%s:%s|%d/%d|%s", Unknown, previous, i-begin+1, end-begin, next)
		if b.nodes[ids[i]] == nil {
			b.nodes[ids[i]] = &Node{ID: ids[i], Kind: Unknown}
		}
	}
}

// edge joins the node before hop i of a path to that of the hop.
func (b *builder) edge(p *path, i int, from, to string) {
	if from == to {
		return
	}
	edge := b.edges[[2]string{from, to}]
	if edge == nil {
		edge = &Edge{From: from, To: to}
		b.edges[[2]string{from, to}] = edge
	}
	if p.result.Time.After(edge.Seen) {
		edge.Seen = p.result.Time
	}
	if p.least[i] == 0 || i > 0 && p.least[i-1] == 0 {
		return
	}
	rtt := time.Duration(p.least[i])
	if i > 0 {
		rtt -= time.Duration(p.least[i-1])
	}
	if !edge.Measured || rtt < edge.RTT {
		edge.RTT, edge.Measured = rtt, true
	}
}

func (b *builder) graph() Graph {
	g := Graph{Nodes: make([]Node, 0, len(b.nodes)), Edges: make([]Edge, 0, len(b.edges)), Paths: b.paths}
	for _, node := range b.nodes {
		g.Nodes = append(g.Nodes, *node)
	}
	for _, edge := range b.edges {
		g.Edges = append(g.Edges, *edge)
	}
	slices.SortFunc(g.Nodes, func(a, b Node) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(g.Edges, func(a, b Edge) int {
		if c := strings.Compare(a.From, b.From); c != 0 {
			return c
		}
		return strings.Compare(a.To, b.To)
	})
	slices.SortFunc(g.Paths, func(a, b Path) int {
		for _, pair := range [][2]string{
			{a.Source, b.Source}, {a.Destination, b.Destination}, {a.Address, b.Address}, {a.Protocol, b.Protocol},
		} {
			if c := strings.Compare(pair[0], pair[1]); c != 0 {
				return c
			}
		}
		return 0
	})
	return g
}
