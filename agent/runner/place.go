package runner

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"pillion.dev/agent/validation"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/source"
	"pillion.dev/session"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// sourceTask is the part of a session's task on one device: the peers reached through it.
type sourceTask struct {
	session.SourceTask
	rules []fivetuple.Filter
	peers map[netip.Addr]string
	edges edges
	// limit says which packets are not marked here; empty: all are.
	limit string
	// proofs are the keys that seal path probes, by the agent of the peer, as far as the
	// server has given them.
	proofs map[string]*wire.ProbeKey
	// approved addresses need no proof.
	approved map[netip.Addr]bool
	local    *source.Settings // of a task without a session; nil otherwise
	// pathFound is deviceSource.pathFound.
	pathFound func(validation.Path)
}

type destinationTask struct {
	session.DestinationTask
	peers map[netip.Addr]string
	edges edges
	// numbers of those that forward, by agent.
	numbers map[string]uint32
	// behind are the prefixes of hosts behind this one.
	behind []netip.Prefix
	// amended are the destinations of packets into whose marks the task only writes; none: it reads.
	amended []netip.Prefix
	local   *LocalDestination // of a task without a session; nil otherwise
}

// wants reports whether the session measures the flow.
func (t *destinationTask) wants(key flow.Key) bool {
	if t.local != nil {
		return true
	}
	if len(t.amended) > 0 || t.agentOf(key) == "" || !t.leadsTo(key.Dst) {
		return false
	}
	fields := t.Fields()
	return len(t.Filters) == 0 || slices.ContainsFunc(t.Filters, func(f fivetuple.Filter) bool { return f.Over(fields).Matches(key) })
}

type deviceTasks struct {
	sources      []sourceTask
	destinations []destinationTask
}

// place finds the device of each peer of each task. A task without a device is a fault.
func place(a session.Assignment) (map[string]deviceTasks, []session.TaskState) {
	devices := map[string]deviceTasks{}
	var faults []session.TaskState
	fault := func(role, name, device string, err error) {
		faults = append(faults, session.TaskState{Session: name, Role: role, Device: device, Error: err.Error()})
	}
	for _, task := range a.Sources {
		rules, limit, foreign := from(task)
		byDevice, err := locate(task.Device, task.Peers, task.Family)
		if err = errors.Join(foreign, err); err != nil {
			fault(roleSource, task.Session, task.Device, err)
			continue
		}
		proofs, approved := proofOf(task)
		behind := edgesOf(task.Peers)
		limit = joinLimits(limit, behind.elsewhere(byDevice))
		for device, peers := range byDevice {
			tasks := devices[device]
			tasks.sources = append(tasks.sources, sourceTask{SourceTask: task, rules: rules, peers: peers, edges: behind, limit: limit, proofs: proofs, approved: approved})
			devices[device] = tasks
		}
	}
	for _, task := range a.Destinations {
		byDevice, err := locate(task.Device, task.Peers, "")
		if err != nil {
			fault(roleDestination, task.Session, task.Device, err)
			continue
		}
		for device, peers := range readingOn(task.Device, byDevice) {
			tasks := devices[device]
			tasks.destinations = append(tasks.destinations, destinationTask{DestinationTask: task, peers: peers, edges: edgesOf(task.Peers), numbers: numbersOf(task.Peers), behind: task.Behind(), amended: task.Amended()})
			devices[device] = tasks
		}
	}
	return devices, faults
}

// readingOn returns the devices on which marks are read, and of which peers: those that the
// session names, or else the device by which packets to a peer leave. No other device reads
// marks: a copy of a mark that arrives elsewhere would look like a flow of its own. Where
// routing is asymmetric, the session has to name the devices.
func readingOn(named string, byDevice map[string]map[netip.Addr]string) map[string]map[netip.Addr]string {
	if named == "" {
		return byDevice
	}
	everyPeer := map[netip.Addr]string{}
	for _, peers := range byDevice {
		maps.Copy(everyPeer, peers)
	}
	devices := map[string]map[netip.Addr]string{}
	for _, device := range session.Devices(named) {
		devices[device] = everyPeer
	}
	return devices
}

var errForeign = errors.New("no filter fits packets of this host, or of those behind it")

// from restricts the filters of a task to packets from its prefixes, if there are any.
// Destinations accept marks of no other source: the mark of a packet that this host
// forwards for another one would never be removed. A limit says for which prefixes no
// rule is left.
func from(task session.SourceTask) (narrow []fivetuple.Filter, limit string, err error) {
	filters := task.Filters
	if len(task.Addresses)+len(task.Transit) == 0 {
		return filters, "", nil
	}
	if len(filters) == 0 {
		filters = []fivetuple.Filter{{}}
	}
	own := task.Own()
	if len(own)*len(filters) > source.RulesMax {
		own = preferred(own, task.Peers)
	}
	for i, prefix := range own {
		var rules []fivetuple.Filter
		for _, filter := range filters {
			if narrowed, ok := filter.From(prefix); ok {
				rules = append(rules, narrowed)
			}
		}
		if len(narrow)+len(rules) > source.RulesMax {
			limit = fmt.Sprintf("packets from %d of %d addresses of this host are not marked: a source has %d rules; name the addresses to measure in the filters of the session",
				len(own)-i, len(own), source.RulesMax)
			break
		}
		narrow = append(narrow, rules...)
	}
	if len(narrow) == 0 {
		return nil, "", errForeign
	}
	return narrow, limit, nil
}

// preferred returns the prefixes in the order in which they are used: first those with the
// addresses that this host itself chooses for packets to the peers.
func preferred(own []netip.Prefix, peers []session.Peer) []netip.Prefix {
	chosen := map[netip.Addr]bool{}
	for _, peer := range peers {
		for _, end := range peer.Ends() {
			if routes, err := netlink.RouteGet(net.IP(end.Addr().AsSlice())); err == nil && len(routes) > 0 {
				src, _ := netip.AddrFromSlice(routes[0].Src)
				chosen[src.Unmap()] = true
			}
		}
	}
	return slices.SortedStableFunc(slices.Values(own), func(a, b netip.Prefix) int { return compareFlags(!chosen[a.Addr()], !chosen[b.Addr()]) })
}

// errNoRoute is a peer that this host cannot reach.
var errNoRoute = errors.New("no route")

var errSelf = errors.New("this host itself")

// locate sorts the peers' addresses by the device that packets to them leave by.
func locate(device string, peers []session.Peer, family string) (map[string]map[netip.Addr]string, error) {
	found := map[string]map[netip.Addr]string{}
	var reason error
	for _, peer := range peers {
		for _, text := range peer.Addresses {
			address, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("read address of %q: %w", peer.Agent, err)
			}
			if family == "ipv4" && !address.Is4() || family == "ipv6" && address.Is4() {
				continue
			}
			through, err := leaveBy(device, address)
			if err != nil {
				reason = fmt.Errorf("find way to %q: %w", peer.Agent, err)
				continue
			}
			if found[through] == nil {
				found[through] = map[netip.Addr]string{}
			}
			found[through][address] = peer.Agent
		}
	}
	if len(found) == 0 && reason == nil {
		reason = errors.New("find way to peers: none has an address of that family")
	}
	if len(found) == 0 {
		return nil, reason
	}
	return found, nil
}

// leaveBy returns the device by which packets to an address leave: the device of the route if it is among the named
// ones, otherwise the first named one.
func leaveBy(named string, address netip.Addr) (string, error) {
	devices := session.Devices(named)
	if len(devices) == 1 {
		return devices[0], nil
	}
	device, err := routeDevice(address)
	if len(devices) != 0 && !slices.Contains(devices, device) {
		return devices[0], nil
	}
	return device, err
}

func routeDevice(address netip.Addr) (string, error) {
	routes, err := netlink.RouteGet(net.IP(address.AsSlice()))
	if err != nil || len(routes) == 0 {
		return "", fmt.Errorf("%w to %v", errNoRoute, address)
	}
	l, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", fmt.Errorf("find interface to %v: %w", address, err)
	}
	if l.Attrs().Flags&net.FlagLoopback != 0 {
		return "", fmt.Errorf("%v is %w", address, errSelf)
	}
	return l.Attrs().Name, nil
}
