package topology

import (
	"maps"
	"net/netip"
	"slices"

	"pillion.dev/archive"
)

// scoped limits a snapshot to a scope. Hosts of other agents are hops like any router's.
func scoped(scope *archive.Scope, paths []path, agents map[netip.Addr]string, known hosts) ([]path, map[netip.Addr]string, hosts) {
	paths = slices.DeleteFunc(paths, func(p path) bool { return !scope.HasPair(p.source, p.destination) })
	agents, own := maps.Clone(agents), hosts{maps.Clone(known.byAgent), maps.Clone(known.nodes)}
	maps.DeleteFunc(agents, func(_ netip.Addr, agent string) bool { return !scope.HasAgent(agent) })
	maps.DeleteFunc(own.byAgent, func(agent string, _ Host) bool { return !scope.HasAgent(agent) })
	maps.DeleteFunc(own.nodes, func(_ string, agent string) bool { return !scope.HasAgent(agent) })
	return paths, agents, own
}
