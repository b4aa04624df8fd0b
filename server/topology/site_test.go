package topology

import (
	"fmt"
	"testing"
	"time"
)

// TestBySite: agents of a site are one node, paths within it are left out, one path is left of each route.
func TestBySite(t *testing.T) {
	node := func(id, kind string) Node {
		n := Node{ID: id, Kind: kind}
		if kind == Agent {
			n.Agent = id
		}
		return n
	}
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	graph := Graph{
		Nodes: []Node{node("a1", Agent), node("a2", Agent), node("b1", Agent), node("x", Agent), node("inside", Router), node("between", Router)},
		Edges: []Edge{
			{From: "a1", To: "between", RTT: 5, Measured: true, Seen: at(1)}, {From: "a2", To: "between", RTT: 3, Measured: true, Seen: at(2)},
			{From: "between", To: "b1", RTT: 9, Measured: true, Seen: at(2)}, {From: "a1", To: "inside"}, {From: "inside", To: "a2"}, {From: "b1", To: "x"},
		},
		Paths: []Path{
			{Source: "a1", Destination: "b1", Nodes: []string{"a1", "between", "b1"}, Time: at(1)},
			{Source: "a2", Destination: "b1", Nodes: []string{"a2", "between", "b1"}, Time: at(2)},
			{Source: "a1", Destination: "a2", Nodes: []string{"a1", "inside", "a2"}, Time: at(3)},
			{Source: "b1", Destination: "x", Nodes: []string{"b1", "x"}, Time: at(3)},
		},
	}
	site := func(agent string) string { return map[string]string{"a1": "A", "a2": "A", "b1": "B"}[agent] }
	show := func(g Graph) (text string) {
		for _, n := range g.Nodes {
			text += fmt.Sprintf("%s %d, ", n.ID, n.Agents)
		}
		for _, e := range g.Edges {
			text += fmt.Sprintf("%s-%s %d, ", e.From, e.To, e.RTT)
		}
		for _, p := range g.Paths {
			text += fmt.Sprintf("%v of %s, ", p.Nodes, p.Source)
		}
		return text
	}
	for _, row := range []struct {
		name string
		open []string
		want string
	}{
		{"closed", nil, "site:A 2, site:B 1, x 0, between 0, site:A-between 3, between-site:B 9, site:B-x 0, [site:A between site:B] of a2, [site:B x] of b1, "},
		{"one is open", []string{"A"}, "a1 0, a2 0, site:B 1, x 0, inside 0, between 0, a1-between 5, a2-between 3, between-site:B 9, a1-inside 0, inside-a2 0, site:B-x 0, " +
			"[a1 between site:B] of a1, [a2 between site:B] of a2, [a1 inside a2] of a1, [site:B x] of b1, "},
	} {
		if got := show(graph.BySite(site, row.open)); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.name, got, row.want)
		}
	}
	if got := show(graph.BySite(func(string) string { return "" }, nil)); got != show(graph) {
		t.Errorf("without sites: %s", got)
	}
}

// TestSilenceBySite: hops without a reply between the same sites are one node, also on the way to a host that was
// not reached; a path within a site that was not reached is left out.
func TestSilenceBySite(t *testing.T) {
	graph := Graph{}
	add := func(source, destination string, reached bool, second int64) {
		s := silence{previous: "agent:" + source, next: "agent:" + destination, step: 1, steps: 1}
		if !reached {
			s.next, s.to = "", destination
		}
		nodes := []string{"agent:" + source, s.id()}
		if reached {
			nodes = append(nodes, "agent:"+destination)
		}
		graph.Nodes = append(graph.Nodes, Node{ID: s.id(), Kind: Unknown, silence: s})
		graph.Paths = append(graph.Paths, Path{Source: source, Destination: destination, Nodes: nodes, Reached: reached, Time: time.Unix(second, 0)})
		for i := 1; i < len(nodes); i++ {
			graph.Edges = append(graph.Edges, Edge{From: nodes[i-1], To: nodes[i]})
		}
	}
	for _, name := range []string{"a1", "a2", "b1", "b2"} {
		graph.Nodes = append(graph.Nodes, Node{ID: "agent:" + name, Kind: Agent, Agent: name})
	}
	add("a1", "b1", true, 1)
	add("a2", "b2", true, 2)
	add("a1", "b2", false, 3)
	add("a2", "b1", false, 4)
	add("a1", "a2", false, 5)
	bySite := graph.BySite(func(agent string) string { return agent[:min(1, len(agent))] }, nil)
	var nodes []string
	for _, n := range bySite.Nodes {
		nodes = append(nodes, n.ID)
	}
	if got, want := fmt.Sprint(nodes), "[site:a site:b unknown:site:a|1/1|site:b unknown:site:a|1/1|to:site:b]"; got != want {
		t.Errorf("nodes %s, want %s", got, want)
	}
	if len(bySite.Paths) != 2 || bySite.Paths[0].Source != "a2" || bySite.Paths[1].Destination != "b1" || len(bySite.Edges) != 3 {
		t.Errorf("paths %+v, edges %+v", bySite.Paths, bySite.Edges)
	}
}
