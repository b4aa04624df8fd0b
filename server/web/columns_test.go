package web

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"pillion.dev/server/topology"
)

// TestColumns: the columns of a graph give its edges and paths back.
func TestColumns(t *testing.T) {
	path := func(source, destination, address string, reached bool, nodes string) topology.Path {
		return topology.Path{
			Source: source, Destination: destination, Address: address, Protocol: "udp", Reached: reached, Nodes: strings.Fields(nodes),
			Time: epoch.Add(-90 * time.Second), Changed: epoch.Add(-time.Hour),
		}
	}
	graph := topology.Graph{
		Nodes: []topology.Node{{ID: "agent:a"}, {ID: "agent:b"}, {ID: "router:x"}, {ID: "router:y"}, {ID: "site:s"}},
		Edges: []topology.Edge{{From: "agent:a", To: "router:x", RTT: -5, Measured: true}, {From: "router:x", To: "agent:b", OneWay: topology.OneWay{Packets: 3, P50Ns: 7}}},
		Paths: []topology.Path{
			path("a", "b", "10.0.0.2", true, "agent:a router:x router:y agent:b"), path("b", "a", "10.0.0.1", true, "agent:b router:x router:y agent:a"),
			path("a", "b", "10.0.0.3", false, "agent:a router:x"), path("a", "c", "10.0.0.4", true, "agent:a site:s"),
			path("a", "", "192.0.2.1", true, "agent:a router:x router:y"), path("a", "b", "10.0.0.2", true, "agent:a agent:b"),
		},
	}
	c := columnsOf(&graph, func(string) string { return "s" }, epoch)
	var routes [][]uint32
	for at, i := 0, 0; i < len(c.RouteLengths); i++ {
		routes = append(routes, c.RouteNodes[at:at+int(c.RouteLengths[i])])
		at += int(c.RouteLengths[i])
	}
	for i, want := range graph.Paths {
		nodes := append([]uint32{c.AgentNodes[c.Sources[i]]}, routes[c.Routes[i]]...)
		if c.Arrives[i] {
			nodes = append(nodes, c.AgentNodes[c.Destinations[i]])
		}
		var ids []string
		for _, n := range nodes {
			ids = append(ids, graph.Nodes[n].ID)
		}
		got := fmt.Sprint(c.Agents[c.Sources[i]], c.Agents[c.Destinations[i]], c.Addresses[c.PathAddresses[i]], c.Protocols[c.PathProtocols[i]], c.Reached[i], ids, c.AgeS[i], c.UnchangedS[i])
		if want := fmt.Sprint(want.Source, want.Destination, want.Address, want.Protocol, want.Reached, want.Nodes, 90, 3600); got != want {
			t.Errorf("path %d: got %s, want %s", i, got, want)
		}
	}
	if len(routes) != 3 { // x y, by both directions and the path to no agent; x; none
		t.Errorf("got routes %v", routes)
	}
	if fmt.Sprint(c.EdgeFrom, c.EdgeTo, c.EdgeRttNs, c.EdgeMeasured, c.OneWayEdges, c.OneWays[0].P50Ns) != "[0 2] [2 1] [-5 0] [true false] [1] 7" {
		t.Errorf("got edges %v", c)
	}
}

// TestColumnsOfMesh: the answer of 200 agents in full mesh has at most 1 MB; if each of its paths has six routers in a sequence of
// their own, a fifth more.
func TestColumnsOfMesh(t *testing.T) {
	const agents, hops = 200, 7
	for name, test := range map[string]struct{ routers, most int }{"shared routes": {30, 1_000_000}, "distinct routes": {2999, 1_200_000}} {
		var graph topology.Graph
		for i := range agents {
			graph.Nodes = append(graph.Nodes, topology.Node{ID: fmt.Sprintf("agent:%d", i)})
		}
		for i := range test.routers {
			graph.Nodes = append(graph.Nodes, topology.Node{ID: fmt.Sprintf("router:%d", i)})
		}
		for from := range agents {
			for to := range agents {
				if from == to {
					continue
				}
				nodes := []string{fmt.Sprintf("agent:%d", from)}
				for hop := range hops - 1 {
					nodes = append(nodes, fmt.Sprintf("router:%d", (from*agents+to)*(2*hop+3)%test.routers))
				}
				graph.Paths = append(graph.Paths, topology.Path{
					Source: fmt.Sprint(from), Destination: fmt.Sprint(to), Address: fmt.Sprintf("10.0.0.%d", to), Protocol: "udp", Reached: true,
					Nodes: slices.Concat(nodes, []string{fmt.Sprintf("agent:%d", to)}), Time: epoch.Add(-time.Minute), Changed: epoch.Add(-30 * time.Hour),
				})
			}
		}
		c := columnsOf(&graph, func(string) string { return "" }, epoch)
		size := proto.Size(c)
		t.Logf("%s: %d paths, %d routes, %d bytes", name, len(c.Sources), len(c.RouteLengths), size)
		if size > test.most {
			t.Errorf("%s: %d bytes", name, size)
		}
	}
}
