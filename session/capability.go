package session

import (
	"fmt"
	"slices"
	"strings"

	"pillion.dev/measure/module"
	"pillion.dev/measure/point"
	"pillion.dev/wire"
)

// Capabilities returns what agents of this version can do and others may not: the names of the
// encodings and modules that they write and read, and of the points that they measure.
func Capabilities() []string {
	return slices.Concat(namesOf(wire.Encodings()), module.Names(), point.Names())
}

func namesOf(encodings []wire.Encoding) []string {
	names := make([]string, 0, len(encodings))
	for _, e := range encodings {
		names = append(names, e.String())
	}
	return names
}

// can reports whether the agent has a capability. An agent that has not reported any yet is not restricted: its
// tasks are assigned again once it reports.
func (h Host) can(capability string) bool {
	return h.Capabilities == nil || slices.Contains(h.Capabilities, capability)
}

// encodings returns the encodings in the list that the agent can write and read.
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

// Measures reports whether the version of the agent can measure a point.
func (h Host) Measures(name string) bool { return h.can(name) }

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

// Of returns the hosts that Restrict needs for an assignment of an agent: its own and the
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
// can do, removes points, modules and fields that the agent does not know, and returns why, by
// session. Tasks that mark in the same way before, which those on one interface must, do so
// after. It replaces the lists of tasks: others may share them.
func Restrict(a *Assignment, agent string, hosts []Host) map[string]string {
	type way struct{ encoding, modules string }
	wayOf := func(task SourceTask) way { return way{task.Encoding, strings.Join(task.Modules, ",")} }
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
	own := ByName(hosts)[agent]
	restricted := map[string]string{}
	for i := range a.Sources {
		task := &a.Sources[i]
		if reasons := task.restrict(ends[wayOf(*task)]); len(reasons) > 0 {
			restricted[task.Session] = strings.TrimPrefix(restricted[task.Session]+"; "+strings.Join(reasons, "; "), "; ")
		}
	}
	a.restrictFields(own)
	a.restrictModules(own)
	a.restrictPoints(own, restricted)
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
		a.Destinations[i].Modules = slices.DeleteFunc(slices.Clone(a.Destinations[i].Modules), func(name string) bool { return !own.can(name) })
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
		t.Modules = slices.DeleteFunc(slices.Clone(t.Modules), func(name string) bool {
			if host.can(name) {
				return false
			}
			reasons = append(reasons, fmt.Sprintf("marks without %s: the version of the agent on %s does not support it", name, host.Name))
			return true
		})
	}
	t.Encoding = list.String()
	return reasons
}
