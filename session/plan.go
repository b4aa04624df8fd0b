package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Action is the type of a step.
type Action string

// The actions, in the order in which a session starts. Points start between the two,
// with startPoint and their names.
const (
	StartDestination Action = "start-destination"
	StartSource      Action = "start-source"
)

const startPoint = "start-"

// Step is one step of a plan.
type Step struct {
	Agent       string `json:"agent"`
	Action      Action `json:"action"`
	Description string `json:"description"`
}

// Plan is the sequence of steps that carries out a session.
type Plan struct {
	Session string
	// Steps to start, in order: every destination before any source.
	Steps []Step
	// Assignments by agent, with this session's tasks only and no revision.
	Assignments map[string]Assignment
	// Warnings list what will not be measured.
	Warnings []string
}

// NewPlan makes the plan of a valid specification for its pairs.
func NewPlan(spec Spec, pairs []Pair, hosts []Host) Plan {
	spec = spec.Complete()
	addresses, warnings := Distinct(hosts)
	warnings = slices.Concat(warnings, spec.overlapping(pairs, addresses), spec.untraced(pairs), spec.waypointWarnings(hosts, pairs))
	plan := Plan{Session: spec.Name, Assignments: Assign(spec, hosts, addresses, pairs, nil, pairs), Warnings: warnings}
	for _, agent := range slices.Sorted(maps.Keys(plan.Assignments)) {
		for _, task := range plan.Assignments[agent].Destinations {
			plan.Steps = append(plan.Steps, Step{agent, StartDestination, task.action()})
		}
	}
	for _, p := range spec.placedPoints() {
		for _, agent := range slices.Sorted(maps.Keys(plan.Assignments)) {
			tasks := plan.Assignments[agent].Points
			if i := slices.IndexFunc(tasks, func(t PointTask) bool { return t.Point == p.Descriptor.Name }); i >= 0 {
				plan.Steps = append(plan.Steps, Step{agent, Action(startPoint + tasks[i].Point), p.action(tasks[i])})
			}
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(plan.Assignments)) {
		for _, task := range plan.Assignments[agent].Sources {
			plan.Steps = append(plan.Steps, Step{agent, StartSource,
				fmt.Sprintf("mark %s%s to %s%s while the marks are read there", task.Sampling, forwarded("from", task.Transit), names(task.Peers), on(task.Device)) + task.hops()})
		}
	}
	if warning := moduleWarning(spec); warning != "" {
		plan.Warnings = append(plan.Warnings, warning)
	}
	plan.Warnings = append(plan.Warnings, spec.blockWarnings(pairs, hosts)...)
	all, measured := ByName(hosts), map[string]bool{}
	for _, pair := range pairs {
		measured[pair.Source], measured[pair.Destination] = true, true
	}
	for _, host := range hosts {
		if !measured[host.Name] {
			continue
		}
		if why := addresses.Lack(spec, host); why != "" {
			plan.Warnings = append(plan.Warnings, why+"; its pairs are not measured until it has one")
		} else if why := Incapable(spec, host); why != "" {
			plan.Warnings = append(plan.Warnings, why+"; its pairs are not measured until then")
		}
		tasks := Assignment{Sources: plan.Assignments[host.Name].Sources, Points: plan.Assignments[host.Name].Points}
		if why := Restrict(&tasks, host.Name, all.Of(host.Name, tasks))[spec.Name]; why != "" {
			plan.Warnings = append(plan.Warnings, host.Name+" "+why)
		}
	}
	return plan
}

// hops describes what it does for delays of hops.
func (t *SourceTask) hops() string {
	if t.HopsGap == 0 {
		return ""
	}
	return fmt.Sprintf("; let routers write the time into one IPv6 packet every %v", t.HopsGap)
}

func names(peers []Peer) string {
	list := make([]string, len(peers))
	for i, peer := range peers {
		list[i] = peer.Agent
		if len(peer.Prefixes) > 0 {
			list[i] = "hosts behind " + peer.Agent
		}
	}
	if len(list) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:4], ", "), len(list)-4)
	}
	return strings.Join(list, ", ")
}

// forwarded says that the packets are not the host's own.
func forwarded(direction string, prefixes []string) string {
	if len(prefixes) == 0 {
		return ""
	}
	return fmt.Sprintf(" that it forwards %s %s", direction, strings.Join(prefixes, " and "))
}

func on(device string) string {
	if device == "" {
		return ""
	}
	return " on " + device
}

// Assign returns the tasks of a session by agent: destinations read the marks of the pairs, and
// of those that are held since marks of theirs may still arrive; sources mark and trace paths
// for those in mark. The three differ only while a session starts or stops. Points run while
// there are any pairs to read. An agent without an address gets no task, unless a pair is held: a
// source without peers would mark all packets. No source marks for an agent that cannot read
// its marks.
func Assign(spec Spec, hosts []Host, addresses Addresses, pairs, held, mark []Pair) map[string]Assignment {
	spec = spec.Complete()
	assignments := map[string]Assignment{}
	_, others := Marked(spec.Modules)
	read := addresses.usable(spec, pairs)
	known := map[Pair]bool{}
	for _, pair := range read {
		known[pair] = true
	}
	for _, pair := range held {
		if !known[pair] {
			read = append(read, pair)
		}
	}
	for agent, peers := range ends(spec, addresses, read, false, func(p Pair) (string, string) { return p.Destination, p.Source }) {
		a := assignments[agent]
		a.Destinations = []DestinationTask{{
			Session: spec.Name, Device: spec.Device[agent], Peers: peers, Filters: spec.Filters, Interval: spec.Interval, Granularity: spec.Granularity,
			Records: spec.Records, Modules: others, Authenticated: spec.Authentication != Unauthenticated, Hops: spec.Hops == HopsIOAM,
			Transit: spec.textsBehind(agent), Block: spec.marking("").Block, FlowTable: spec.flowTable(),
		}}
		assignments[agent] = a
	}
	assignWaypoints(spec, hosts, addresses, read, assignments)
	for agent, peers := range ends(spec, addresses, capable(spec, hosts, mark), true, func(p Pair) (string, string) { return p.Source, p.Destination }) {
		a := assignments[agent]
		a.Sources = []SourceTask{{
			Session: spec.Name, Device: spec.Device[agent], Addresses: addresses.peer(spec, agent).Addresses, Transit: spec.textsBehind(agent),
			Waypoints: spec.Waypoints, Peers: peers, Modules: atSource(spec.Modules), Encoding: spec.Encoding, Marking: spec.marking(agent),
			Authenticated: spec.Authentication != Unauthenticated, Family: spec.Family, Filters: spec.Filters, Lease: spec.Lease,
			Interval: spec.Interval, Flows: spec.Flows,
		}}
		a.Traces = traces(spec, peers)
		assignments[agent] = a
	}
	if len(pairs)+len(held) > 0 {
		assignPoints(spec, hosts, assignments)
	}
	return assignments
}

// ends groups the pairs by the agent that has the task. The other one needs an address; so does
// a source, but not a destination: one that loses its address still reads what is on its way.
func ends(spec Spec, addresses Addresses, pairs []Pair, both bool, split func(Pair) (own, other string)) map[string][]Peer {
	grouped := map[string][]Peer{}
	known := map[string]Peer{}
	lookup := func(host string) Peer {
		peer, ok := known[host]
		if !ok {
			peer = addresses.peer(spec, host)
			known[host] = peer
		}
		return peer
	}
	for _, pair := range pairs {
		own, other := split(pair)
		if peer := lookup(other); len(peer.Addresses) > 0 && (!both || len(lookup(own).Addresses) > 0) {
			grouped[own] = append(grouped[own], peer)
		}
	}
	for _, peers := range grouped {
		slices.SortFunc(peers, func(a, b Peer) int { return strings.Compare(a.Agent, b.Agent) })
	}
	return grouped
}

func traces(spec Spec, peers []Peer) []TraceTask {
	if spec.Trace < 0 || spec.Hops == HopsOff {
		return nil
	}
	var tasks []TraceTask
	for _, peer := range peers {
		for _, address := range peer.first() {
			tasks = append(tasks, TraceTask{
				Session: spec.Name, Peer: peer.Agent, Address: address, Protocol: "udp", Every: spec.Trace,
			})
		}
	}
	return tasks
}

// Union merges assignments into one, with tasks ordered by session.
func Union(assignments ...Assignment) Assignment {
	var union Assignment
	for _, a := range assignments {
		union.Destinations = append(union.Destinations, a.Destinations...)
		union.Sources = append(union.Sources, a.Sources...)
		union.Traces = append(union.Traces, a.Traces...)
		union.Points = append(union.Points, a.Points...)
	}
	slices.SortStableFunc(union.Destinations, func(a, b DestinationTask) int { return strings.Compare(a.Session, b.Session) })
	slices.SortStableFunc(union.Sources, func(a, b SourceTask) int { return strings.Compare(a.Session, b.Session) })
	slices.SortStableFunc(union.Traces, func(a, b TraceTask) int { return strings.Compare(a.Session, b.Session) })
	slices.SortStableFunc(union.Points, func(a, b PointTask) int { return strings.Compare(a.Session, b.Session) })
	return union
}
