package session

import (
	"slices"

	"pillion.dev/wire/fivetuple"
)

// Routers are the agents whose routers a specification profiles, by name. Warnings and
// faults are those of Resolve.
func Routers(spec Spec, hosts []Host) (names, warnings []string, faults []Problem) {
	var found problems
	chosen, warnings := found.choose("routers", spec.Routers, hosts)
	for name := range chosen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, warnings, found
}

// routerLeast is the least interval of a profile: reading one costs milliseconds.
const routerLeast = DefaultInterval

// Profile is what a router does for a session.
func Profile(spec Spec) RouterTask {
	spec = spec.Complete()
	return RouterTask{
		Session: spec.Name, Filter: routerFilter(spec.Filters), Interval: max(spec.Interval, routerLeast), Lease: spec.Lease,
	}
}

// what it profiles, in words.
func (t RouterTask) what() string {
	if t.Filter == (fivetuple.Filter{}) {
		return "all packets"
	}
	return "packets with " + t.Filter.String()
}

// routerFilter is what a router can know packets of the session by: it sees them with
// their marks, which leave addresses as they are and hide protocol and ports. Of
// several filters it can have none.
func routerFilter(filters []fivetuple.Filter) fivetuple.Filter {
	if len(filters) != 1 {
		return fivetuple.Filter{}
	}
	return fivetuple.Filter{Src: filters[0].Src, Dst: filters[0].Dst}
}
