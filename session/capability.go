package session

import (
	"fmt"
	"slices"
	"strings"

	"pillion.dev/measure/module"
	"pillion.dev/measure/point"
	"pillion.dev/wire"
)

// SparseMarks is the capability to write sparse marks, and to read them.
const SparseMarks = "sparse-marks"

// MarkKeys is the capability to take the keys of sessions with tasks. Earlier versions reject
// fields that they do not know.
const MarkKeys = "mark-keys"

// RuleAuthentication is the capability to read marks with and without tags of the same source, of
// different packets.
const RuleAuthentication = "rule-authentication"

// HopTraces is the capability to write and to read traces of hops. Earlier versions reject the
// field.
const HopTraces = "hops-ioam"

// DescribeHost is the capability to answer Describe.
const DescribeHost = "describe"

// MarkPolicies is the capability to mark the packets of each rule in its own way.
const MarkPolicies = "policies"

// SentReports is the capability to report, as a source, what flows have sent, and to count, as
// a destination, what of it never arrived.
const SentReports = "sent-reports"

// HashSampling is the capability to sample by content. Earlier versions reject the field.
const HashSampling = "hash-sampling"

// Capabilities returns what agents of this version can do and those of an earlier version
// may not: the encodings that they write and read, by name, those above, and the points and
// modules that require a capability.
func Capabilities() []string {
	capabilities := append(namesOf(wire.Encodings()),
		SparseMarks,
		MarkKeys,
		DescribeHost,
		SentReports,
		HashSampling,
		Transit,
		MarkPolicies,
		HopTraces,
		RuleAuthentication,
	)
	for _, d := range point.All() {
		if d.Capability != "" {
			capabilities = append(capabilities, d.Capability)
		}
	}
	for _, d := range module.All() {
		if d.Capability != "" {
			capabilities = append(capabilities, d.Capability)
		}
	}
	return capabilities
}

// earliest are the capabilities of agents that state none: the encodings that precede options
// of UDP and TCP.
var earliest = namesOf(wire.Encodings()[:wire.UDPOption])

func namesOf(encodings []wire.Encoding) []string {
	names := make([]string, 0, len(encodings))
	for _, e := range encodings {
		names = append(names, e.String())
	}
	return names
}

// can reports whether the agent has a capability.
func (h Host) can(capability string) bool {
	if h.Capabilities == nil {
		return slices.Contains(earliest, capability)
	}
	return slices.Contains(h.Capabilities, capability)
}

// encodings returns those of the list that the agent can write and read.
func (h Host) encodings(list wire.EncodingList) wire.EncodingList {
	var known wire.EncodingList
	for _, e := range list {
		if h.can(e.String()) {
			known = append(known, e)
		}
	}
	return known
}

// Incapable returns why an agent can neither write nor read marks of a session; empty: it
// can. The specification is complete.
func Incapable(spec Spec, host Host) string {
	list, err := wire.ParseEncodings(spec.Encoding)
	known := host.encodings(list)
	if spec.Authentication == Authenticated && !host.can(MarkKeys) {
		return fmt.Sprintf("the version of the agent on %s does not support authentication of marks: update it, or set authentication to auto", host.Name)
	}
	if len(spec.Transit) > 0 && !host.can(Transit) {
		return fmt.Sprintf("the version of the agent on %s does not support transit: update it", host.Name)
	}
	if spec.aggregates() && !host.HasPolicies() {
		return fmt.Sprintf("the version of the agent on %s does not support flow: update it, or leave flow out", host.Name)
	}
	if err != nil || len(known) == len(list) {
		return ""
	}
	restricted := spec
	restricted.Encoding = known.String()
	for _, is4 := range []bool{true, false} {
		if spec.marks(is4) && (len(known) == 0 || !restricted.marks(is4)) {
			return fmt.Sprintf("the version of the agent on %s does not support encoding %s: update it, or add encodings to the list", host.Name, spec.Encoding)
		}
	}
	return ""
}

// capable returns the pairs of which both agents can write and read marks of the session.
func capable(spec Spec, hosts []Host, pairs []Pair) []Pair {
	incapable := map[string]bool{} // of the hosts of the pairs
	for _, pair := range pairs {
		incapable[pair.Source], incapable[pair.Destination] = false, false
	}
	for _, host := range hosts {
		if _, found := incapable[host.Name]; found {
			incapable[host.Name] = Incapable(spec, host) != ""
		}
	}
	return slices.DeleteFunc(slices.Clone(pairs), func(p Pair) bool { return incapable[p.Source] || incapable[p.Destination] })
}

// Authenticates reports whether the version of the agent can write and check tags of marks.
func (h Host) Authenticates() bool { return h.can(MarkKeys) }

// AuthenticatesByRule reports whether the version of the agent can require tags in the packets of some
// sessions with a source, and none in those of others.
func (h Host) AuthenticatesByRule() bool { return h.can(RuleAuthentication) }

// HasPolicies reports whether the version of the agent can mark the packets of each rule in its
// own way.
func (h Host) HasPolicies() bool { return h.can(MarkPolicies) }

// Divides reports whether the version of the agent can be a waypoint, which divides the delay of
// packets that it forwards.
func (h Host) Divides() bool { return h.can(module.Segments.Capability) }

// Measures reports whether the version of the agent can measure a point.
func (h Host) Measures(name string) bool {
	d := point.Find(name)
	return d == nil || d.Capability == "" || h.can(d.Capability)
}

// marks reports whether the version of the agent can write and read a module.
func (h Host) marks(name string) bool {
	if d := module.Find(name); d != nil {
		return d.Capability == "" || h.can(d.Capability)
	}
	return h.can(name)
}

// Hosts are hosts by name.
type Hosts map[string]Host

// ByName indexes hosts.
func ByName(hosts []Host) Hosts {
	all := make(Hosts, len(hosts))
	for _, host := range hosts {
		all[host.Name] = host
	}
	return all
}

// Of returns the hosts that Restrict and Fits need for an assignment of an agent: its own and the
// peers of its sources, by name.
func (h Hosts) Of(agent string, a Assignment) []Host {
	names := map[string]bool{agent: true}
	for _, task := range a.Sources {
		for _, peer := range task.Peers {
			names[peer.Agent] = true
		}
	}
	hosts := make([]Host, 0, len(names))
	for name := range names {
		if host, known := h[name]; known {
			hosts = append(hosts, host)
		}
	}
	slices.SortFunc(hosts, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	return hosts
}

// Restrict limits the sources of an assignment to what the agent and all peers of each task
// can do, removes points that the agent cannot measure and keys that it does not know, and
// returns why, by session. Tasks that mark in the same way before, which those on one interface
// must, do so after. It replaces the lists of tasks: others may share them.
func Restrict(a *Assignment, agent string, hosts []Host) map[string]string {
	type way struct {
		encoding, modules     string
		sparse, authenticated bool
	}
	wayOf := func(task SourceTask) way {
		return way{task.Encoding, strings.Join(task.Modules, ","), task.SparseMarks, task.Authenticated}
	}
	ends := map[way][]Host{}
	for _, task := range a.Sources {
		w, peers := wayOf(task), map[string]bool{agent: true}
		for _, peer := range task.Peers {
			peers[peer.Agent] = true
		}
		for _, host := range hosts {
			if peers[host.Name] {
				ends[w] = append(ends[w], host)
			}
		}
	}
	a.Sources, a.Destinations, a.Points = slices.Clone(a.Sources), slices.Clone(a.Destinations), slices.Clone(a.Points)
	var own Host // without any capability if the agent is unknown
	at := slices.IndexFunc(hosts, func(h Host) bool { return h.Name == agent })
	if at >= 0 {
		own = hosts[at]
	}
	restricted := map[string]string{}
	a.restrictKeys(own)
	a.restrictTransit(own)
	a.restrictHops(own, restricted)
	a.restrictWaypoints(own, restricted)
	a.restrictFields(own)
	for i := range a.Sources {
		task := &a.Sources[i]
		if at >= 0 && own.Capabilities == nil {
			task.StampEvery = 0 // which those versions reject: they stamp every packet
		}
		if !own.can(SentReports) {
			task.Interval = 0
		}
		reasons := task.restrict(ends[wayOf(*task)])
		if every := task.Sampling.Hash; every > 0 && !own.can(HashSampling) {
			task.Sampling.Hash, task.Sampling.HashSeed, task.Sampling.Random = 0, "", every
			reasons = append(reasons, fmt.Sprintf("samples at random: the version of the agent on %s does not support sampling by content", agent))
		}
		if len(reasons) > 0 {
			restricted[task.Session] = strings.TrimPrefix(restricted[task.Session]+"; "+strings.Join(reasons, "; "), "; ")
		}
	}
	if at >= 0 {
		a.restrictModules(own)
		a.restrictPoints(own, restricted)
	}
	return restricted
}

// restrictPoints removes points that the agent cannot measure.
func (a *Assignment) restrictPoints(own Host, restricted map[string]string) {
	a.Points = slices.DeleteFunc(a.Points, func(task PointTask) bool {
		if own.Measures(task.Point) {
			return false
		}
		why := fmt.Sprintf("does not measure %s: the version of the agent does not support it", task.Point)
		if text := restricted[task.Session]; !strings.Contains(text, why) {
			restricted[task.Session] = strings.TrimPrefix(text+"; "+why, "; ")
		}
		return true
	})
}

// restrictModules removes the modules of destinations that the agent cannot read.
func (a *Assignment) restrictModules(own Host) {
	for i := range a.Destinations {
		a.Destinations[i].Modules = slices.DeleteFunc(slices.Clone(a.Destinations[i].Modules), func(name string) bool { return !own.marks(name) })
	}
}

// restrictKeys removes the keys of sessions if the agent does not know the field.
func (a *Assignment) restrictKeys(own Host) {
	if own.can(MarkKeys) {
		return
	}
	for i := range a.Sources {
		a.Sources[i].Peers = withoutKeys(a.Sources[i].Peers)
	}
	for i := range a.Destinations {
		a.Destinations[i].Authenticated = false
		a.Destinations[i].Peers = withoutKeys(a.Destinations[i].Peers)
	}
}

// restrictFields clears what the agent does not know, by the tags of the fields.
func (a *Assignment) restrictFields(own Host) {
	for i := range a.Sources {
		restrictFields(&a.Sources[i], own)
	}
	for i := range a.Destinations {
		restrictFields(&a.Destinations[i], own)
	}
}

// restrictHops removes the traces of hops if the agent cannot read them.
func (a *Assignment) restrictHops(own Host, restricted map[string]string) {
	if own.can(HopTraces) {
		return
	}
	for i := range a.Destinations {
		if task := &a.Destinations[i]; task.Hops {
			task.Hops = false
			restricted[task.Session] = "reads no traces of hops: the version of the agent does not support it"
		}
	}
}

// restrictTransit removes tasks of sessions with transit if the agent does not know the field;
// Incapable says why.
func (a *Assignment) restrictTransit(own Host) {
	if own.can(Transit) {
		return
	}
	behind := func(own []string, peers []Peer) bool {
		return len(own) > 0 || slices.ContainsFunc(peers, func(p Peer) bool { return len(p.Prefixes) > 0 })
	}
	a.Sources = slices.DeleteFunc(a.Sources, func(t SourceTask) bool { return behind(t.Transit, t.Peers) })
	a.Destinations = slices.DeleteFunc(a.Destinations, func(t DestinationTask) bool { return behind(t.Transit, t.Peers) })
	a.Points = slices.DeleteFunc(a.Points, func(t PointTask) bool { return behind(nil, t.Peers) })
}

// restrictHops lets routers write into packets only if both ends can deal with that.
func (t *SourceTask) restrictHops(ends []Host) (reasons []string) {
	for _, host := range ends {
		if t.HopsGap != 0 && !host.can(HopTraces) {
			reasons = append(reasons, fmt.Sprintf("measures no delays of hops: the version of the agent on %s does not support it", host.Name))
			t.HopsGap = 0
		}
	}
	return reasons
}

func withoutKeys(peers []Peer) []Peer {
	bare := slices.Clone(peers)
	for i := range bare {
		bare[i].Key, bare[i].Approved, bare[i].Named = nil, nil, false
	}
	return bare
}

// restrict limits a task to what all of these agents can do.
func (t *SourceTask) restrict(ends []Host) (reasons []string) {
	list, err := wire.ParseEncodings(t.Encoding)
	if err != nil {
		return nil
	}
	for _, host := range ends {
		known := host.encodings(list)
		if len(known) != len(list) && len(known) != 0 {
			reasons = append(reasons, fmt.Sprintf("marks in %s only: the version of the agent on %s supports no other of the encodings", known, host.Name))
			list = known
		}
		if t.SparseMarks && !host.can(SparseMarks) {
			reasons = append(reasons, fmt.Sprintf("marks every packet: the version of the agent on %s does not support sparse marks", host.Name))
			t.SparseMarks = false
		}
		t.Modules = slices.DeleteFunc(slices.Clone(t.Modules), func(name string) bool {
			if host.marks(name) {
				return false
			}
			reasons = append(reasons, fmt.Sprintf("marks without %s: the version of the agent on %s does not support it", name, host.Name))
			return true
		})
		if t.Authenticated && !host.can(MarkKeys) {
			reasons = append(reasons, fmt.Sprintf("marks without authentication: the version of the agent on %s does not support it", host.Name))
			t.Authenticated = false
		}
	}
	t.Encoding = list.String()
	return append(reasons, t.restrictHops(ends)...)
}
