package topology

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/session"
)

// Kinds of nodes.
const (
	Agent   = "agent"
	Router  = "router"
	Unknown = "unknown"
	Site    = "site" // all agents of one
)

// Kinds of paths, by how they were measured.
const (
	// Traceroute: by probes of its own, to which routers reply; times are of round trips.
	Traceroute = "traceroute"
	// IOAM: by what routers write into packets; times are one-way.
	IOAM = "ioam"
)

// Graph is the union of paths, in a fixed order.
type Graph struct {
	Nodes []Node
	Edges []Edge
	Paths []Path
}

// Node is a host, a router, or a hop without a reply.
type Node struct {
	ID   string
	Kind string
	// Agent is its name, for the kind Agent.
	Agent string
	// Addresses are all of an agent, one of a router, none of an unknown hop.
	Addresses []string
	// IOAM is the identifier of an IOAM node, such as 0x000101; empty: it is none, or none that
	// a path has shown.
	IOAM string
	// Site and Agents are set of a node of the kind Site: its name, and how many agents it stands for.
	Site   string
	Agents int

	silence silence // of the kind Unknown
}

// silence is where a hop without a reply is: the step-th of several between two nodes, or after a
// node on the way to a destination that was not reached.
type silence struct {
	previous, next string // ids of nodes
	to             string // agent or address, if there is no next
	step, steps    int
}

func (s silence) id() string {
	next := s.next
	if next == "" {
		next = "to:" + s.to
	}
	return fmt.Sprintf("%s:%s|%d/%d|%s", Unknown, s.previous, s.step, s.steps, next)
}

// Edge joins two nodes in the direction of the traced packets.
type Edge struct {
	From, To string
	// RTT is the difference of the minimum round-trip times to both ends, the smallest
	// over all paths. It includes the return path, so it may be negative. It is valid
	// only if Measured: both ends replied.
	RTT      time.Duration
	Measured bool
	Seen     time.Time
	// OneWay is the delay from one end to the other, of the path of kind IOAM that showed it
	// last; it has no packets if none did.
	OneWay OneWay
	// OneWaySeen is when it was measured.
	OneWaySeen time.Time
}

// Path is the last trace from one agent to another.
type Path struct {
	Source      string
	Destination string
	Address     string
	Protocol    string
	// Nodes are the ids from the source to the last hop, one more than Hops.
	Nodes   []string
	Reached bool
	Time    time.Time
	// Changed is when the current route was first seen.
	Changed time.Time
	// Hops has one for each TTL from 1. It must not be changed.
	Hops []Hop
	// Kind is Traceroute or IOAM.
	Kind string
	// OneWay is the delay from end to end, of a path of kind IOAM.
	OneWay OneWay
	// IntervalNs is the time before Time in which its packets were received.
	IntervalNs int64
	// OtherPackets are packets of that interval that took another path.
	OtherPackets uint64
	// Overflowed are packets whose trace had no room for a further node.
	Overflowed uint64
}

// Hop is one hop of a path, which ends at a node.
type Hop struct {
	session.TraceHop
	// OneWay is its delay, in a path of kind IOAM.
	OneWay OneWay
	// Skipped are routers on this hop that wrote nothing, as far as known.
	Skipped int
	// Stages are times inside the router at its end, from Input to Output, if an agent profiles
	// it; StagesTime is the end of the interval in which packets had them.
	Stages        []Stage
	Input, Output string
	StagesTime    time.Time
	// StagesUnknown: an agent profiles the router, but it is not known by which interfaces the
	// path passes it. It has no stages, since they may belong to the opposite direction.
	StagesUnknown bool
}

// OneWay is a one-way delay of packets, ns.
type OneWay struct {
	Packets                            uint64
	MinNs, MeanNs, P50Ns, P99Ns, MaxNs int64
	// UncertaintyNs bounds the error of each delay due to the resolution of time stamps.
	UncertaintyNs int64
	// ClockErrorNs bounds the error of the clocks of both ends. Unless ClockKnown, nothing is known
	// about one of them.
	ClockErrorNs int64
	ClockKnown   bool
}

// Selection selects paths.
type Selection struct {
	// Session traced them in the last day; empty: any.
	Session string
	// Source and Destination are their ends; empty: any.
	Source, Destination string
}

// all selects every path.
func (s Selection) all() bool { return s == Selection{} }

func (s Selection) has(p *path, now time.Time) bool {
	return p.in(s.Session, now) && (s.Source == "" || s.Source == p.source) && (s.Destination == "" || s.Destination == p.destination)
}

// Graph returns the graph of paths. A graph of all paths has all agents. A graph of some of them shows the
// same nodes, but edges only have the figures of these paths. Within a scope it has the paths between the
// scope's pairs: other agents on them are shown as a traceroute shows them, without the inside of their hosts.
func (t *Topology) Graph(of Selection, scope *archive.Scope) Graph {
	paths, agents, hosts := t.snapshot(of)
	stages := t.latestStages()
	if scope != nil {
		paths, agents, hosts = scoped(scope, paths, agents, hosts)
		maps.DeleteFunc(stages, func(agent string, _ routerStages) bool { return !scope.HasAgent(agent) })
	}
	b := builder{
		owners: agents, addresses: addressesOf(agents), hosts: hosts, agents: map[string]int{}, at: map[place]int{},
		unknowns: map[gap]int{}, edges: map[[2]int]*Edge{}, stages: stages, now: t.now(),
	}
	if of.all() {
		for _, agent := range agents {
			b.agent(agent)
		}
	}
	for i := range paths {
		b.add(&paths[i])
	}
	b.addStages()
	return b.graph()
}

// snapshot copies the paths, so that traces do not wait for the graph. The data they
// point to is immutable.
func (t *Topology) snapshot(of Selection) ([]path, map[netip.Addr]string, hosts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	var paths []path
	now := t.now()
	for element := t.order.Front(); element != nil; element = element.Next() {
		if p := element.Value.(*path); of.has(p, now) {
			paths = append(paths, *p)
		}
	}
	return paths, t.agents, t.hosts
}

// addressesOf each agent, in order.
func addressesOf(agents map[netip.Addr]string) map[string][]string {
	sorted := make([]netip.Addr, 0, len(agents))
	for address := range agents {
		sorted = append(sorted, address)
	}
	slices.SortFunc(sorted, netip.Addr.Compare)
	addresses := map[string][]string{}
	for _, address := range sorted {
		agent := agents[address]
		addresses[agent] = append(addresses[agent], address.String())
	}
	return addresses
}

// builder refers to nodes by index, which is faster than by id: a full mesh of a few
// hundred agents has a hundred thousand paths.
type builder struct {
	owners    map[netip.Addr]string
	addresses map[string][]string
	hosts     hosts
	stages    map[string]routerStages
	now       time.Time
	nodes     []Node
	agents    map[string]int
	at        map[place]int
	unknowns  map[gap]int
	edges     map[[2]int]*Edge
	paths     []Path
	places    [][]int // of each path
}

// gap is the place of a silent hop, with the indices of nodes.
type gap struct {
	previous, next int
	to             string
	step, steps    int
}

func (b *builder) node(n Node) int {
	b.nodes = append(b.nodes, n)
	return len(b.nodes) - 1
}

func (b *builder) agent(name string) int {
	i, ok := b.agents[name]
	if !ok {
		i = b.node(Node{ID: Agent + ":" + name, Kind: Agent, Agent: name, Addresses: b.addresses[name]})
		b.agents[name] = i
	}
	return i
}

func (b *builder) host(p place) int {
	i, ok := b.at[p]
	if ok {
		return i
	}
	agent := b.owners[p.address]
	if p.node != "" {
		agent = b.hosts.nodes[p.node]
	}
	switch {
	case agent != "":
		i = b.agent(agent)
	case p.node != "":
		i = b.node(Node{ID: IOAM + ":" + p.node, Kind: Router})
	default:
		i = b.node(Node{ID: Router + ":" + p.address.String(), Kind: Router, Addresses: []string{p.address.String()}})
	}
	if p.node != "" {
		b.nodes[i].IOAM = p.node
	}
	b.at[p] = i
	return i
}

func (b *builder) unknown(g gap) int {
	i, ok := b.unknowns[g]
	if !ok {
		s := silence{previous: b.nodes[g.previous].ID, to: g.to, step: g.step, steps: g.steps}
		if g.to == "" {
			s.next = b.nodes[g.next].ID
		}
		i = b.node(Node{ID: s.id(), Kind: Unknown, silence: s})
		b.unknowns[g] = i
	}
	return i
}

func (b *builder) add(p *path) {
	places := b.hops(p)
	ids := make([]string, len(places))
	for i, place := range places {
		ids[i] = b.nodes[place].ID
		if i > 0 {
			b.edge(p, i-1, places[i-1], place)
		}
	}
	if p.destination != "" {
		b.agent(p.destination) // which may not have been reached
	}
	shown := Path{
		Source: p.source, Destination: p.destination, Address: p.address, Protocol: p.protocol, Kind: Traceroute,
		Nodes: ids, Reached: p.result.Reached, Time: p.result.Time, Changed: p.known.changed,
	}
	if p.measured != nil {
		p.measured.show(&shown, b.clocks(places))
	} else {
		shown.Hops = make([]Hop, len(p.hops))
		for i, h := range p.hops {
			shown.Hops[i].TraceHop = h
		}
	}
	b.paths, b.places = append(b.paths, shown), append(b.places, places)
}

// hops are the nodes of the source and all hops.
func (b *builder) hops(p *path) []int {
	const silent = -1
	places := make([]int, 1, len(p.route.hops)+1)
	places[0] = b.agent(p.source)
	for i, hop := range p.route.hops {
		switch {
		case !hop.known():
			places = append(places, silent)
		case p.result.Reached && i == len(p.route.hops)-1 && p.destination != "":
			places = append(places, b.agent(p.destination)) // whatever address it answers from
		default:
			places = append(places, b.host(hop))
		}
	}
	for begin := 1; begin < len(places); begin++ {
		end := begin
		for end < len(places) && places[end] == silent {
			end++
		}
		g := gap{previous: places[begin-1], steps: end - begin}
		if end < len(places) {
			g.next = places[end]
		} else {
			g.to = or(p.destination, p.address)
		}
		for ; begin < end; begin++ {
			g.step++
			places[begin] = b.unknown(g)
		}
	}
	return places
}

// edge joins the node before hop i of a path to the hop's node.
func (b *builder) edge(p *path, i, from, to int) {
	if from == to {
		return
	}
	edge := b.edges[[2]int{from, to}]
	if edge == nil {
		edge = &Edge{From: b.nodes[from].ID, To: b.nodes[to].ID}
		b.edges[[2]int{from, to}] = edge
	}
	if p.result.Time.After(edge.Seen) {
		edge.Seen = p.result.Time
	}
	if p.measured != nil {
		if delay := p.measured.delays[i+1]; delay.Packets > 0 && p.result.Time.After(edge.OneWaySeen) {
			edge.OneWay, edge.OneWaySeen = b.clocked(delay, from, to), p.result.Time
		}
		return
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
	g := Graph{Nodes: b.nodes, Edges: make([]Edge, 0, len(b.edges)), Paths: b.paths}
	for _, edge := range b.edges {
		g.Edges = append(g.Edges, *edge)
	}
	slices.SortFunc(g.Nodes, func(a, b Node) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(g.Edges, func(a, b Edge) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	})
	slices.SortFunc(g.Paths, func(a, b Path) int {
		return cmp.Or(
			strings.Compare(a.Source, b.Source), strings.Compare(a.Destination, b.Destination),
			strings.Compare(a.Address, b.Address), strings.Compare(a.Protocol, b.Protocol),
		)
	})
	return g
}
