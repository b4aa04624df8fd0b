package topology

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pillion.dev/server/event"
	"pillion.dev/session"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// record keeps events.
type record []event.Event

func (r *record) Event(e event.Event) { *r = append(*r, e) }
func (r *record) Change(event.Change) {}

// newTopology knows agents a (10.0.1.x), b (10.0.2.x), c (10.0.3.x).
func newTopology(t *testing.T) (*Topology, *record) {
	t.Helper()
	events := &record{}
	topology := New(events, 50_000)
	topology.now = func() time.Time { return start }
	agents := map[netip.Addr]string{}
	for i, name := range []string{"a", "b", "c"} {
		for last := range 3 {
			agents[netip.AddrFrom4([4]byte{10, 0, byte(i + 1), byte(last + 1)})] = name
		}
	}
	setAgents(topology, agents)
	return topology, events
}

// setAgents names addresses without interfaces, setHosts leaves the names of addresses as they are.
func setAgents(topology *Topology, agents map[netip.Addr]string) {
	topology.mu.Lock()
	defer topology.mu.Unlock()
	topology.agents = agents
}

func setHosts(topology *Topology, byAgent map[string]Host) {
	agents := topology.agents
	topology.SetHosts(byAgent)
	setAgents(topology, agents)
}

var addresses = map[string]string{
	"a": "10.0.1.1", "b": "10.0.2.1", "b'": "10.0.2.2", "c": "10.0.3.1",
	"r1": "192.0.2.1", "r2": "192.0.2.2", "r3": "192.0.2.3", "r4": "192.0.2.4", "*": "",
}

// result is a trace from words such as "r1 * b"; a final ! means that it is unreached.
func result(at time.Duration, destination, words string) session.TraceResult {
	trace := session.TraceResult{
		Time: start.Add(at), Source: addresses["a"], Address: addresses[destination], Protocol: "udp", Reached: true,
	}
	for i, word := range strings.Fields(words) {
		if word == "!" {
			trace.Reached = false
			break
		}
		h := session.TraceHop{TTL: i + 1, Address: addresses[word], Sent: 3}
		if h.Address != "" {
			h.RTT, h.Answers = int64(i+1)*1000, 3
		}
		trace.Hops = append(trace.Hops, h)
	}
	return trace
}

func add(t *testing.T, topology *Topology, source, destination string, traced session.TraceResult) {
	t.Helper()
	if err := topology.Add(source, destination, "s", traced); err != nil {
		t.Fatal(err)
	}
}

func TestNodes(t *testing.T) {
	tests := map[string]struct {
		words string
		want  string
	}{
		"neighbours":                 {"b", "agent:a agent:b"},
		"routers":                    {"r1 r2 b", "agent:a router:192.0.2.1 router:192.0.2.2 agent:b"},
		"agent on the way":           {"r1 c b", "agent:a router:192.0.2.1 agent:c agent:b"},
		"alias of the end":           {"r1 b'", "agent:a router:192.0.2.1 agent:b"},
		"unknown address of the end": {"r1 r4", "agent:a router:192.0.2.1 agent:b"},
		"silent hop":                 {"r1 * b", "agent:a router:192.0.2.1 unknown:router:192.0.2.1|1/1|agent:b agent:b"},
		"silent first hop":           {"* r1 b", "agent:a unknown:agent:a|1/1|router:192.0.2.1 router:192.0.2.1 agent:b"},
		"two silent hops":            {"* * b", "agent:a unknown:agent:a|1/2|agent:b unknown:agent:a|2/2|agent:b agent:b"},
		"not reached":                {"r1 * * !", "agent:a router:192.0.2.1 unknown:router:192.0.2.1|1/2|to:b unknown:router:192.0.2.1|2/2|to:b"},
		"no reply at all":            {"* !", "agent:a unknown:agent:a|1/1|to:b"},
		"refused":                    {"r1 r2 !", "agent:a router:192.0.2.1 router:192.0.2.2"},
		"same router twice":          {"r1 r1 b", "agent:a router:192.0.2.1 router:192.0.2.1 agent:b"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			topology, _ := newTopology(t)
			add(t, topology, "a", "b", result(0, "b", test.words))
			graph := topology.Graph(Selection{Session: "s"}, nil)
			if len(graph.Paths) != 1 {
				t.Fatalf("got %d paths, want 1", len(graph.Paths))
			}
			if got := strings.Join(graph.Paths[0].Nodes, " "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			checkWhole(t, graph)
		})
	}
}

// checkWhole checks that a graph has all nodes and edges of its paths.
func checkWhole(t *testing.T, graph Graph) {
	t.Helper()
	nodes := map[string]Node{}
	for _, n := range graph.Nodes {
		if _, twice := nodes[n.ID]; twice {
			t.Errorf("two nodes %s", n.ID)
		}
		nodes[n.ID] = n
	}
	edges := map[[2]string]bool{}
	for _, e := range graph.Edges {
		edges[[2]string{e.From, e.To}] = true
	}
	for _, p := range graph.Paths {
		if len(p.Nodes) != len(p.Hops)+1 {
			t.Errorf("path from %s to %s has %d hops and nodes %v", p.Source, p.Destination, len(p.Hops), p.Nodes)
			continue
		}
		if nodes["agent:"+p.Source].Agent != p.Source || nodes["agent:"+p.Destination].Agent != p.Destination {
			t.Errorf("path from %s to %s: an end is missing", p.Source, p.Destination)
		}
		for i, h := range p.Hops {
			n, ok := nodes[p.Nodes[i+1]]
			if !ok || h.TTL != i+1 || (h.Address == "") != (n.Kind == Unknown) {
				t.Errorf("hop %+v became node %+v", h, n)
			}
			if n.Kind == Router && !slices.Contains(n.Addresses, h.Address) {
				t.Errorf("hop %+v is not in node %+v", h, n)
			}
			if p.Nodes[i] != p.Nodes[i+1] && !edges[[2]string{p.Nodes[i], p.Nodes[i+1]}] {
				t.Errorf("no edge from %s to %s", p.Nodes[i], p.Nodes[i+1])
			}
		}
	}
}

// TestRouterWithAgent: all addresses that an agent states are its node, in both directions of a path,
// but for those that another one keeps or states too.
func TestRouterWithAgent(t *testing.T) {
	topology := New(&record{}, 10)
	topology.now = func() time.Time { return start }
	on := func(addresses ...string) []session.Interface { return []session.Interface{{Addresses: addresses}} }
	topology.SetHosts(map[string]Host{
		"a": {Interfaces: on("10.0.1.1/24", "172.17.0.1/16", "fe80::1/64")},
		"b": {Interfaces: on("10.0.2.1/24", "172.17.0.1/16", "fe80::1/64", "192.0.2.3/32"), Disputed: []string{"192.0.2.3"}},
		"r": {Interfaces: append(on("192.0.2.1/24", "nonsense"), session.Interface{Loopback: true, Addresses: []string{"192.0.2.2/32", "192.0.2.3/32"}})},
	})
	add(t, topology, "a", "b", result(0, "b", "r1 b"))
	add(t, topology, "b", "a", result(0, "a", "r2 r3 a"))
	graph := topology.Graph(Selection{}, nil)
	for i, want := range []string{"agent:a agent:r agent:b", "agent:b agent:r agent:r agent:a"} {
		if got := strings.Join(graph.Paths[i].Nodes, " "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if len(graph.Nodes) != 3 || len(topology.agents) != 5 {
		t.Errorf("got nodes %+v of %v", graph.Nodes, topology.agents)
	}
	checkWhole(t, graph)
}

func TestGraphIsComplete(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, seed))
	words := []string{"r1", "r2", "r3", "r4", "c", "b'", "*", "*"}
	for round := range 300 {
		topology, _ := newTopology(t)
		paths := 1 + random.IntN(6)
		for range paths {
			destination := []string{"b", "c"}[random.IntN(2)]
			var path []string
			for range random.IntN(8) {
				path = append(path, words[random.IntN(len(words))])
			}
			path = append(path, []string{destination, "!"}[random.IntN(2)])
			add(t, topology, []string{"a", "b", "c"}[random.IntN(3)], destination,
				result(time.Duration(random.IntN(100))*time.Second, destination, strings.Join(path, " ")))
		}
		graph := topology.Graph(Selection{}, nil)
		checkWhole(t, graph)
		for _, agent := range []string{"agent:a", "agent:b", "agent:c"} {
			if !slices.ContainsFunc(graph.Nodes, func(n Node) bool { return n.ID == agent }) {
				t.Errorf("no node %s", agent)
			}
		}
		if t.Failed() {
			t.Fatalf("in round %d of seed %d", round, seed)
		}
	}
}

func TestUnknownHopsAreTheSameInAllTraces(t *testing.T) {
	topology, _ := newTopology(t)
	unknown := func() []string {
		var ids []string
		for _, n := range topology.Graph(Selection{Session: "s"}, nil).Nodes {
			if n.Kind == Unknown {
				ids = append(ids, n.ID)
			}
		}
		return ids
	}
	for at := range time.Duration(3) {
		add(t, topology, "a", "b", result(at*time.Minute, "b", "r1 * r2 b"))
	}
	add(t, topology, "a", "c", result(0, "c", "r1 * r2 c"))
	if got := unknown(); len(got) != 1 {
		t.Errorf("one place: got %v", got)
	}
	add(t, topology, "c", "b", result(0, "b", "r1 * r3 b"))
	add(t, topology, "b", "c", result(0, "c", "r2 * r1 c"))
	add(t, topology, "c", "a", result(0, "a", "r1 * * r2 a"))
	if got := unknown(); len(got) != 5 {
		t.Errorf("one, two and two places: got %v", got)
	}
}

func TestEdges(t *testing.T) {
	topology, _ := newTopology(t)
	slow := result(0, "b", "r1 * b")
	slow.Hops[0].RTT, slow.Hops[2].RTT = 5000, 9000
	fast := result(time.Minute, "b", "r1 * b")
	fast.Hops[0].RTT, fast.Hops[2].RTT = 2000, 11000
	add(t, topology, "a", "b", slow)
	add(t, topology, "a", "b", fast)
	other := result(0, "c", "r1 r2 c")
	other.Hops[0].RTT, other.Hops[1].RTT, other.Hops[2].RTT = 7000, 6000, 8000
	add(t, topology, "a", "c", other)
	var got []string
	for _, e := range topology.Graph(Selection{Session: "s"}, nil).Edges {
		got = append(got, fmt.Sprintf("%s>%s %d %v %s", e.From, e.To, e.RTT, e.Measured, e.Seen.Sub(start)))
	}
	want := []string{
		"agent:a>router:192.0.2.1 2000 true 1m0s",
		"router:192.0.2.1>router:192.0.2.2 -1000 true 0s",
		"router:192.0.2.1>unknown:router:192.0.2.1|1/1|agent:b 0 false 1m0s",
		"router:192.0.2.2>agent:c 2000 true 0s",
		"unknown:router:192.0.2.1|1/1|agent:b>agent:b 0 false 1m0s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSessions(t *testing.T) {
	topology, _ := newTopology(t)
	now := start
	topology.now = func() time.Time { return now }
	for _, trace := range []struct{ destination, session string }{{"b", "one"}, {"b", "two"}, {"c", "two"}} {
		if err := topology.Add("a", trace.destination, trace.session, result(0, trace.destination, "r1 "+trace.destination)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name string, want int) {
		t.Helper()
		if got := len(topology.Graph(Selection{Session: name}, nil).Paths); got != want {
			t.Errorf("session %q: got %d paths, want %d", name, got, want)
		}
	}
	check("one", 1)
	check("two", 2)
	check("", 2)
	check("none", 0)
	now = start.Add(keep - time.Minute)
	if err := topology.Add("a", "b", "two", result(keep-time.Minute, "b", "r1 b")); err != nil {
		t.Fatal(err)
	}
	now = start.Add(keep + time.Minute)
	check("one", 0) // its traces have ended
	check("two", 1)
	check("", 1)
}

func TestMemoryIsBounded(t *testing.T) {
	topology, _ := newTopology(t)
	topology.most = 10
	for i := range 100 {
		add(t, topology, "a", fmt.Sprintf("x%d", i), result(0, "b", "r1 b"))
		add(t, topology, "a", "x0", result(0, "b", "r1 b")) // always traced
	}
	paths := topology.Graph(Selection{}, nil).Paths
	var got []string
	for _, p := range paths {
		got = append(got, p.Destination)
	}
	if want := []string{"x0", "x91", "x92", "x93", "x94", "x95", "x96", "x97", "x98", "x99"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range 3 * sessionsMost {
		if err := topology.Add("a", "x0", fmt.Sprint(i), result(0, "b", "r1 b")); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(topology.order.Front().Value.(*path).sessions); got > sessionsMost {
		t.Errorf("got %d sessions of a path", got)
	}
}

func TestBadTraces(t *testing.T) {
	tests := map[string]func(*session.TraceResult){
		"no time":         func(r *session.TraceResult) { r.Time = time.Time{} },
		"no address":      func(r *session.TraceResult) { r.Address = "" },
		"no protocol":     func(r *session.TraceResult) { r.Protocol = "" },
		"long protocol":   func(r *session.TraceResult) { r.Protocol = strings.Repeat("x", 10000) },
		"ttl 0":           func(r *session.TraceResult) { r.Hops[0].TTL = 0 },
		"huge ttl":        func(r *session.TraceResult) { r.Hops[0].TTL = 1 << 30 },
		"invalid address": func(r *session.TraceResult) { r.Hops[0].Address = "somewhere" },
		"long zone":       func(r *session.TraceResult) { r.Hops[0].Address = "fe80::1%" + strings.Repeat("x", 10000) },
	}
	for name, spoil := range tests {
		topology, _ := newTopology(t)
		traced := result(0, "b", "r1 b")
		spoil(&traced)
		if err := topology.Add("a", "b", "", traced); !errors.Is(err, ErrTrace) || len(err.Error()) > 1000 {
			t.Errorf("%s: got %v", name, err)
		}
		if len(topology.Graph(Selection{}, nil).Paths) != 0 {
			t.Errorf("%s: kept", name)
		}
	}
	topology, _ := newTopology(t)
	failed := session.TraceResult{Time: start, Address: "10.0.2.1", Protocol: "udp", Error: "no route"}
	if err := topology.Add("a", "b", "", failed); err != nil || len(topology.Graph(Selection{}, nil).Paths) != 0 {
		t.Errorf("failed trace: got %v, %v", err, topology.Graph(Selection{}, nil).Paths)
	}
}

// For the race detector.
func TestConcurrentUse(t *testing.T) {
	topology := New(discard{}, 50_000)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 50 {
				words := []string{"r1 b", "r2 * b", "r2 r3 b", "* !"}[(i+worker)%4]
				if err := topology.Add("a", "b", fmt.Sprint(worker), result(time.Duration(i)*time.Second, "b", words)); err != nil {
					t.Error(err)
				}
				setAgents(topology, map[netip.Addr]string{netip.MustParseAddr(addresses["b"]): "b"})
				if graph := topology.Graph(Selection{}, nil); len(graph.Paths) != 1 {
					t.Errorf("got %d paths, want 1", len(graph.Paths))
				}
			}
		})
	}
	group.Wait()
}

// discard is a sink for several goroutines.
type discard struct{}

func (discard) Event(event.Event)   {}
func (discard) Change(event.Change) {}

// mesh is a full mesh of agents, with paths of seven hops.
func mesh(agents int) *Topology {
	topology := New(discard{}, 50_000)
	names := map[netip.Addr]string{}
	for i := range agents {
		names[netip.AddrFrom4([4]byte{10, 1, byte(i), 1})] = fmt.Sprintf("agent%d", i)
	}
	setAgents(topology, names)
	for from := range agents {
		for to := range agents {
			if from == to {
				continue
			}
			destination := netip.AddrFrom4([4]byte{10, 1, byte(to), 1}).String()
			traced := session.TraceResult{Time: start, Address: destination, Protocol: "udp", Reached: true}
			for hop := range 7 {
				h := session.TraceHop{TTL: hop + 1, Sent: 3, Answers: 3, RTT: int64(hop + 1)}
				switch {
				case hop == 6:
					h.Address = destination
				case hop != 3:
					h.Address = netip.AddrFrom4([4]byte{192, 168, byte(hop), byte(from*hop + to)}).String()
				}
				traced.Hops = append(traced.Hops, h)
			}
			if err := topology.Add(fmt.Sprintf("agent%d", from), fmt.Sprintf("agent%d", to), "s", traced); err != nil {
				panic(err)
			}
		}
	}
	return topology
}

func TestMesh(t *testing.T) {
	graph := mesh(200).Graph(Selection{Session: "s"}, nil)
	if len(graph.Paths) != 200*199 {
		t.Errorf("got %d paths, want %d", len(graph.Paths), 200*199)
	}
	checkWhole(t, graph)
}

func BenchmarkGraphOf200Agents(b *testing.B) {
	topology := mesh(200)
	for b.Loop() {
		topology.Graph(Selection{Session: "s"}, nil)
	}
}
