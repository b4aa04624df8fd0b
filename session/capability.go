package session

import (
	"fmt"
	"slices"
	"strings"

	"pillion.dev/measure/point"
	"pillion.dev/wire"
)

// SparseMarks is the capability to write sparse marks, and to read them.
const SparseMarks = "sparse-marks"

// MarkKeys is the capability to take the keys of sessions with tasks. Earlier versions reject
// fields that they do not know.
const MarkKeys = "mark-keys"

// DescribeHost is the capability to answer Describe.
const DescribeHost = "describe"

// Capabilities returns what agents of this version can do and those of an earlier version
// may not: the encodings that they write and read, by name, SparseMarks, MarkKeys, DescribeHost, and the
// points that require a capability.
func Capabilities() []string {
	capabilities := append(namesOf(wire.Encodings()), SparseMarks, MarkKeys, DescribeHost)
	for _, d := range point.All() {
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
	incapable := map[string]bool{}
	for _, host := range hosts {
		incapable[host.Name] = Incapable(spec, host) != ""
	}
	return slices.DeleteFunc(slices.Clone(pairs), func(p Pair) bool { return incapable[p.Source] || incapable[p.Destination] })
}

// Authenticates reports whether the version of the agent can write and check tags of marks.
func (h Host) Authenticates() bool { return h.can(MarkKeys) }

// Measures reports whether the version of the agent can measure a point.
func (h Host) Measures(name string) bool {
	d := point.Find(name)
	return d == nil || d.Capability == "" || h.can(d.Capability)
}

// Restrict limits the sources of an assignment to what the agent and all peers of each task
// can do, removes points that the agent cannot measure and keys that it does not know, and
// returns why, by session. Tasks
// that mark in the same way before, which those on one interface must, do so after.
func Restrict(a *Assignment, agent string, hosts []Host) map[string]string {
	type way struct {
		encoding              string
		sparse, authenticated bool
	}
	ends := map[way][]Host{}
	for _, task := range a.Sources {
		w := way{task.Encoding, task.SparseMarks, task.Authenticated}
		for _, host := range hosts {
			if host.Name == agent || slices.ContainsFunc(task.Peers, func(p Peer) bool { return p.Agent == host.Name }) {
				ends[w] = append(ends[w], host)
			}
		}
	}
	early := slices.ContainsFunc(hosts, func(h Host) bool { return h.Name == agent && h.Capabilities == nil })
	restricted := map[string]string{}
	a.restrictKeys(agent, hosts)
	for i := range a.Sources {
		task := &a.Sources[i]
		if early {
			task.StampEvery = 0 // which those versions reject: they stamp every packet
		}
		if reasons := task.restrict(ends[way{task.Encoding, task.SparseMarks, task.Authenticated}]); len(reasons) > 0 {
			restricted[task.Session] = strings.Join(reasons, "; ")
		}
	}
	for _, host := range hosts {
		if host.Name == agent {
			a.Points = slices.DeleteFunc(slices.Clone(a.Points), func(task PointTask) bool {
				if host.Measures(task.Point) {
					return false
				}
				why := fmt.Sprintf("does not measure %s: the version of the agent does not support it", task.Point)
				if text := restricted[task.Session]; !strings.Contains(text, why) {
					restricted[task.Session] = strings.TrimPrefix(text+"; "+why, "; ")
				}
				return true
			})
		}
	}
	return restricted
}

// restrictKeys removes the keys of sessions if the agent does not know the field.
func (a *Assignment) restrictKeys(agent string, hosts []Host) {
	if slices.ContainsFunc(hosts, func(h Host) bool { return h.Name == agent && h.can(MarkKeys) }) {
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
		if t.Authenticated && !host.can(MarkKeys) {
			reasons = append(reasons, fmt.Sprintf("marks without authentication: the version of the agent on %s does not support it", host.Name))
			t.Authenticated = false
		}
	}
	t.Encoding = list.String()
	return reasons
}
