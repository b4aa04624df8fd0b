package topology

import (
	"slices"
	"strings"
)

// BySite returns the graph with one node for all agents of a site, but for the sites that are open. Paths within a
// site are left out, and of the paths with the same nodes only the last traced is kept. Hops without a reply between
// the same nodes are one. Agents without a site stay.
func (g Graph) BySite(siteOf func(agent string) string, open []string) Graph {
	closed := func(agent string) string {
		if site := siteOf(agent); !slices.Contains(open, site) {
			return site
		}
		return ""
	}
	result, names := collapseNodes(g.Nodes, closed)
	within := func(p *Path) bool {
		site := closed(p.Source)
		return site != "" && site == closed(p.Destination)
	}
	result.Paths = collapsePaths(g.Paths, names, within)
	used := map[string]bool{}
	steps := map[[2]string]bool{}
	for _, p := range result.Paths {
		for i, id := range p.Nodes {
			used[id] = true
			if i > 0 {
				steps[[2]string{p.Nodes[i-1], id}] = true
			}
		}
	}
	result.Nodes = slices.DeleteFunc(result.Nodes, func(n Node) bool { return n.Kind != Agent && n.Kind != Site && !used[n.ID] })
	result.Edges = collapseEdges(g.Edges, names, steps)
	return result
}

// collapseNodes returns a graph of the nodes that remain, and the new ids by the former ones.
func collapseNodes(nodes []Node, closed func(agent string) string) (result Graph, names map[string]string) {
	names = make(map[string]string, len(nodes))
	for _, n := range nodes {
		names[n.ID] = n.ID
		if n.Kind == Agent && closed(n.Agent) != "" {
			names[n.ID] = siteID(closed(n.Agent))
		}
	}
	known := make(map[string]int, len(nodes)) // index in the result
	for _, n := range nodes {
		former := n.ID
		switch {
		case n.Kind == Unknown:
			n.silence.previous, n.silence.next = names[n.silence.previous], names[n.silence.next]
			if site := closed(n.silence.to); site != "" {
				n.silence.to = siteID(site)
			}
			n.ID = n.silence.id()
		case names[former] != former:
			n = Node{ID: names[former], Kind: Site, Site: closed(n.Agent)}
		}
		names[former] = n.ID
		at, again := known[n.ID]
		if !again {
			at = len(result.Nodes)
			known[n.ID] = at
			result.Nodes = append(result.Nodes, n)
		}
		if n.Kind == Site {
			result.Nodes[at].Agents++
		}
	}
	return result, names
}

func siteID(site string) string { return Site + ":" + site }

// collapsePaths renames the nodes of paths that are not within a site, and keeps the last traced of those that are the same then.
func collapsePaths(paths []Path, names map[string]string, within func(*Path) bool) (kept []Path) {
	known := map[string]int{}
	for _, p := range paths {
		if within(&p) {
			continue
		}
		nodes, collapsed := make([]string, len(p.Nodes)), false
		for i, id := range p.Nodes {
			nodes[i] = names[id]
			collapsed = collapsed || nodes[i] != id
		}
		p.Nodes = nodes
		if !collapsed {
			kept = append(kept, p)
			continue
		}
		key := strings.Join(append(nodes[:len(nodes):len(nodes)], p.Protocol, p.Kind), "\x00")
		if at, again := known[key]; again {
			if p.Time.After(kept[at].Time) {
				kept[at] = p
			}
			continue
		}
		known[key] = len(kept)
		kept = append(kept, p)
	}
	return kept
}

// collapseEdges renames the ends of edges. Of those that are the same then, the least time and the last one-way delay count.
func collapseEdges(edges []Edge, names map[string]string, used map[[2]string]bool) (kept []Edge) {
	known := map[[2]string]int{}
	for _, e := range edges {
		e.From, e.To = names[e.From], names[e.To]
		ends := [2]string{e.From, e.To}
		if e.From == e.To || !used[ends] {
			continue
		}
		at, again := known[ends]
		if !again {
			known[ends] = len(kept)
			kept = append(kept, e)
			continue
		}
		to := &kept[at]
		if e.Measured && (!to.Measured || e.RTT < to.RTT) {
			to.RTT, to.Measured = e.RTT, true
		}
		if e.Seen.After(to.Seen) {
			to.Seen = e.Seen
		}
		if e.OneWaySeen.After(to.OneWaySeen) {
			to.OneWay, to.OneWaySeen = e.OneWay, e.OneWaySeen
		}
	}
	return kept
}
