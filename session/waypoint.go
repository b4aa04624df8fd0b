package session

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"pillion.dev/measure/module"
	"pillion.dev/wire"
)

// waypoints checks the agents on the paths that divide them into segments.
func (p *problems) waypoints(s Spec) {
	if len(s.Waypoints) == 0 {
		return
	}
	p.selectors("waypoints", s.Waypoints)
	for i, name := range s.Waypoints {
		if s.Names(name) {
			p.add(fmt.Sprintf("waypoints[%d]", i), "%s is a source or a destination of the session: a waypoint is on the path between them", name)
		}
	}
	if !slices.Contains(s.Modules, module.Delay.Name) {
		p.add("waypoints", "waypoints divide one-way delay: add the module delay")
	}
	list, _ := wire.ParseEncodings(s.Encoding) // an error is a problem of its own
	if _, without := carriers(list); len(without) > 0 {
		able, _ := carriers(wire.Encodings())
		p.add("encoding", "marks in %s have no room for the time of a waypoint: use %s", without, able)
	}
}

// waypointEncodings is the default list of a session with waypoints: marks in all of them have room for
// the time of a waypoint, as for options of modules.
func waypointEncodings() string {
	with, _ := carriers(wire.DefaultEncodings())
	return with.String()
}

// completeModules adds what a session with waypoints measures.
func (s Spec) completeModules() []string {
	modules := slices.Clone(s.Modules)
	if len(modules) == 0 {
		modules = slices.Clone(defaultModules)
	}
	if len(s.Waypoints) > 0 && !slices.Contains(modules, module.Segments.Name) {
		modules = append(modules, module.Segments.Name)
	}
	return slices.Sorted(slices.Values(modules))
}

// atSource returns the modules that a source has to know: segments need nothing of it.
func atSource(modules []string) []string {
	return slices.DeleteFunc(slices.Clone(modules), func(name string) bool { return name == module.Segments.Name })
}

// waypointsAmong returns the agents that are waypoints of the pairs. An agent that is an end of a pair is no
// waypoint.
func (s Spec) waypointsAmong(hosts []Host, pairs []Pair) (waypoints []string) {
	var ignored problems // Resolve returns them
	names, _ := ignored.choose("waypoints", s.Waypoints, hosts)
	for _, pair := range pairs {
		delete(names, pair.Source)
		delete(names, pair.Destination)
	}
	return slices.Sorted(maps.Keys(names))
}

// assignWaypoints adds the tasks of waypoints: they write into the marks of packets of the sources to the
// destinations.
func assignWaypoints(spec Spec, hosts []Host, addresses Addresses, read []Pair, assignments map[string]Assignment) {
	waypoints := spec.waypointsAmong(hosts, read)
	if len(waypoints) == 0 {
		return
	}
	var peers []Peer
	to := map[netip.Prefix]bool{}
	for _, pair := range read {
		source, destination := addresses.peer(spec, pair.Source), addresses.peer(spec, pair.Destination)
		if len(source.Addresses) > 0 && !slices.ContainsFunc(peers, func(p Peer) bool { return p.Agent == source.Agent }) {
			peers = append(peers, source)
		}
		for _, prefix := range destination.Ends() {
			to[prefix] = true
		}
	}
	if len(peers) == 0 || len(to) == 0 {
		return
	}
	slices.SortFunc(peers, func(a, b Peer) int { return strings.Compare(a.Agent, b.Agent) })
	var amends []string
	for prefix := range to {
		amends = append(amends, prefix.String())
	}
	slices.Sort(amends)
	for _, a := range assignments {
		for i := range a.Destinations {
			a.Destinations[i].DividedBy = waypoints
		}
	}
	for _, agent := range waypoints {
		a := assignments[agent]
		a.Destinations = append(a.Destinations, DestinationTask{
			Session: spec.Name, Device: spec.Device[agent], Peers: slices.Clone(peers), Interval: spec.Interval,
			Granularity: spec.Granularity, Amends: amends,
		})
		assignments[agent] = a
	}
}

// Amended are the destinations of packets into whose marks the task writes; none: it reads marks.
func (t *DestinationTask) Amended() []netip.Prefix { return parsed(t.Amends) }

// action describes the task.
func (t *DestinationTask) action() string {
	if len(t.Amends) == 0 {
		return "read and remove marks of packets from " + names(t.Peers) + forwarded("to", t.Transit) + on(t.Device)
	}
	to := t.Amends
	if len(to) > 5 {
		to = append(slices.Clone(to[:4]), fmt.Sprintf("%d more", len(to)-4))
	}
	return "write the time of arrival into marks of packets from " + names(t.Peers) + forwarded("to", to) + on(t.Device)
}

// waypointWarnings say which agents are no waypoints although they are selected.
func (s Spec) waypointWarnings(hosts []Host, pairs []Pair) (warnings []string) {
	if len(s.Waypoints) == 0 {
		return nil
	}
	var ignored problems
	names, _ := ignored.choose("waypoints", s.Waypoints, hosts)
	waypoints := s.waypointsAmong(hosts, pairs)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !slices.Contains(waypoints, name) {
			warnings = append(warnings, fmt.Sprintf("waypoints: %s is a source or a destination of the session: it writes no times into the marks of others", name))
		}
	}
	if len(waypoints) == 0 {
		warnings = append(warnings, "waypoints: no agent on the paths matches yet: delays are not divided")
	}
	return warnings
}

// dividedBy are the waypoints of two tasks, empty unless both have some: the first waypoint on a path
// divides the delay, so two sessions cannot have different ones.
func dividedBy(t, other SourceTask) string {
	if len(t.Waypoints) == 0 || len(other.Waypoints) == 0 {
		return ""
	}
	return strings.Join(slices.Sorted(slices.Values(t.Waypoints)), ",")
}
