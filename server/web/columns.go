package web

import (
	"encoding/binary"
	"time"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/server/topology"
)

// index numbers values in the order in which they first occur.
type index[K comparable] struct {
	of   map[K]uint32
	list []K
}

func (x *index[K]) at(value K) uint32 {
	if n, known := x.of[value]; known {
		return n
	}
	if x.of == nil {
		x.of = map[K]uint32{}
	}
	n := uint32(len(x.list))
	x.of[value], x.list = n, append(x.list, value)
	return n
}

// columns builds the columns of a graph.
type columns struct {
	*pillionv1.TopologyColumns
	nodes                        map[string]uint32
	siteOf                       func(agent string) string
	agents, addresses, protocols index[string]
	routes                       index[string]
	now                          time.Time
}

// columnsOf has the edges and paths of a graph; siteOf names the site whose node stands for an agent
// that has none of its own.
func columnsOf(graph *topology.Graph, siteOf func(agent string) string, now time.Time) *pillionv1.TopologyColumns {
	c := columns{TopologyColumns: &pillionv1.TopologyColumns{}, nodes: make(map[string]uint32, len(graph.Nodes)), siteOf: siteOf, now: now}
	for i, n := range graph.Nodes {
		c.nodes[n.ID] = uint32(i)
	}
	for i := range graph.Edges {
		c.edge(&graph.Edges[i])
	}
	c.agent("")
	for i := range graph.Paths {
		c.path(&graph.Paths[i])
	}
	for _, name := range c.agents.list {
		c.Agents = append(c.Agents, validText(name))
	}
	for _, address := range c.addresses.list {
		c.Addresses = append(c.Addresses, validText(address))
	}
	for _, protocol := range c.protocols.list {
		c.Protocols = append(c.Protocols, validText(protocol))
	}
	if len(c.Sources) > 0 {
		c.Time = api.TimeMessage(now)
	}
	return c.TopologyColumns
}

func (c *columns) edge(e *topology.Edge) {
	if e.OneWay.Packets > 0 {
		c.OneWayEdges, c.OneWays = append(c.OneWayEdges, uint32(len(c.EdgeFrom))), append(c.OneWays, api.Message[pillionv1.OneWay](e.OneWay))
	}
	c.EdgeFrom, c.EdgeTo = append(c.EdgeFrom, c.nodes[e.From]), append(c.EdgeTo, c.nodes[e.To])
	c.EdgeRttNs, c.EdgeMeasured = append(c.EdgeRttNs, e.RTT.Nanoseconds()), append(c.EdgeMeasured, e.Measured)
}

// agent returns the number of an agent.
func (c *columns) agent(name string) uint32 {
	n := c.agents.at(name)
	if int(n) == len(c.AgentNodes) {
		node, own := c.nodes[topology.Agent+":"+name]
		if !own && name != "" {
			node = c.nodes[topology.Site+":"+c.siteOf(name)]
		}
		c.AgentNodes = append(c.AgentNodes, node)
	}
	return n
}

func (c *columns) path(p *topology.Path) {
	source, destination := c.agent(p.Source), c.agent(p.Destination)
	between := p.Nodes[min(1, len(p.Nodes)):]
	last := len(between) - 1
	arrives := p.Destination != "" && last >= 0 && c.nodes[between[last]] == c.AgentNodes[destination]
	if arrives {
		between = between[:last]
	}
	c.Sources, c.Destinations = append(c.Sources, source), append(c.Destinations, destination)
	c.PathAddresses, c.PathProtocols = append(c.PathAddresses, c.addresses.at(p.Address)), append(c.PathProtocols, c.protocols.at(p.Protocol))
	c.Routes, c.Arrives, c.Reached = append(c.Routes, c.route(between)), append(c.Arrives, arrives), append(c.Reached, p.Reached)
	c.AgeS, c.UnchangedS = append(c.AgeS, c.age(p.Time)), append(c.UnchangedS, c.age(p.Changed))
}

// route returns the number of a sequence of nodes.
func (c *columns) route(ids []string) uint32 {
	nodes := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		nodes = binary.LittleEndian.AppendUint32(nodes, c.nodes[id])
	}
	n := c.routes.at(string(nodes))
	if int(n) == len(c.RouteLengths) {
		c.RouteLengths = append(c.RouteLengths, uint32(len(ids)))
		for _, id := range ids {
			c.RouteNodes = append(c.RouteNodes, c.nodes[id])
		}
	}
	return n
}

// age of a time in whole seconds; agents' clocks may be ahead.
func (c *columns) age(at time.Time) uint32 {
	return small(int64(c.now.Sub(at) / time.Second))
}
