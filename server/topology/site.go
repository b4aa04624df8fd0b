package topology

import (
	"slices"
	"strings"
)

// BySite returns the graph with one node for all agents of a site, but for the sites that are open. Paths within a
// site are left out, and of the paths with the same nodes only the last traced is kept. Agents without a site stay.
func (g Graph) BySite(siteOf func(agent string) string, open []string) Graph {
	names := make(map[string]string, len(g.Nodes)) // of nodes, by their former ids
	sites := map[string]int{}                      // index in nodes
	result := Graph{}
	for _, n := range g.Nodes {
		site := ""
		if n.Kind == Agent {
			site = siteOf(n.Agent)
		}
		if site == "" || slices.Contains(open, site) {
			names[n.ID] = n.ID
			result.Nodes = append(result.Nodes, n)
			continue
		}
		id := Site + ":" + site
		names[n.ID] = id
		at, known := sites[id]
		if !known {
			at = len(result.Nodes)
			sites[id] = at
			result.Nodes = append(result.Nodes, Node{ID: id, Kind: Site, Site: site})
		}
		result.Nodes[at].Agents++
	}
	result.Paths = collapsePaths(g.Paths, names)
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

// collapsePaths renames the nodes of paths, and keeps the last traced of those that are the same then.
func collapsePaths(paths []Path, names map[string]string) (kept []Path) {
	known := map[string]int{}
	for _, p := range paths {
		if len(p.Nodes) == 0 {
			continue
		}
		nodes, collapsed := make([]string, len(p.Nodes)), false
		for i, id := range p.Nodes {
			nodes[i] = names[id]
			collapsed = collapsed || nodes[i] != id
		}
		if collapsed && nodes[0] == nodes[len(nodes)-1] {
			continue // within a site
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
