package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Pair is one source and one destination.
type Pair struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
}

// Resolve returns the pairs that a specification selects among the hosts: every source
// with every other destination and, with Both, the reverse pairs. They are sorted and
// unique.
//
// A selector without = is the name of an agent or, if no agent has that name, the key of
// a label; if it is neither, it is a problem. A selector with = that matches no agent is
// only a warning, because agents may join later.
func Resolve(spec Spec, hosts []Host) (pairs []Pair, warnings []string, faults []Problem) {
	var found problems
	sources, sourceWarnings := found.choose("sources", spec.Sources, hosts)
	destinations, destinationWarnings := found.choose("destinations", spec.Destinations, hosts)
	_, waypointWarnings := found.choose("waypoints", spec.Waypoints, hosts)
	warnings = slices.Concat(sourceWarnings, destinationWarnings, waypointWarnings)
	unique := map[Pair]bool{}
	for source := range sources {
		for destination := range destinations {
			if source == destination {
				continue
			}
			unique[Pair{source, destination}] = true
			if spec.Both {
				unique[Pair{destination, source}] = true
			}
		}
	}
	for pair := range unique {
		pairs = append(pairs, pair)
	}
	slices.SortFunc(pairs, comparePairs)
	if len(pairs) == 0 && len(found) == 0 {
		if spec.follows() {
			warnings = append(warnings, "no pair of agents matches yet: measurement starts when they join")
		} else {
			found.add("destinations", "source and destination are the same agent: select another")
		}
	}
	warnings = append(warnings, spec.unused(pairs)...)
	return pairs, warnings, found
}

func comparePairs(a, b Pair) int {
	return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Destination, b.Destination))
}

// follows reports whether agents that join later can match the session.
func (s Spec) follows() bool {
	for _, text := range slices.Concat(s.Sources, s.Destinations) {
		if text == "*" || strings.Contains(text, "=") {
			return true
		}
	}
	return false
}

// Names reports whether the session selects an agent by its name.
func (s Spec) Names(agent string) bool {
	return slices.Contains(s.Sources, agent) || slices.Contains(s.Destinations, agent)
}

// choose returns the names of the hosts that match any of the selectors.
func (p *problems) choose(field string, selectors []string, hosts []Host) (names map[string]bool, warnings []string) {
	names = map[string]bool{}
	for i, text := range selectors {
		chosen := selectHosts(text, hosts)
		for _, host := range chosen {
			names[host.Name] = true
			if !host.Connected && host.Name == text {
				warnings = append(warnings, fmt.Sprintf("%s is not connected: its measurements start when it connects", text))
			}
		}
		if len(chosen) > 0 {
			continue
		}
		if text == "*" || strings.Contains(text, "=") {
			warnings = append(warnings, fmt.Sprintf("%s: no agent matches %s yet", field, text))
		} else {
			p.add(fmt.Sprintf("%s[%d]", field, i), "no agent or label is named %q", text)
		}
	}
	return names, warnings
}

func selectHosts(selector string, hosts []Host) []Host {
	if selector == "*" {
		return hosts
	}
	key, value, exact := strings.Cut(selector, "=")
	if !exact {
		if i := slices.IndexFunc(hosts, func(h Host) bool { return h.Name == selector }); i >= 0 {
			return hosts[i : i+1]
		}
	}
	var chosen []Host
	for _, host := range hosts {
		if own, ok := host.Labels[key]; ok && (!exact || own == value) {
			chosen = append(chosen, host)
		}
	}
	return chosen
}

// unused warns of settings for agents that are in no pair.
func (s Spec) unused(pairs []Pair) []string {
	sources, all := map[string]bool{}, map[string]bool{}
	for _, pair := range pairs {
		sources[pair.Source], all[pair.Source], all[pair.Destination] = true, true, true
	}
	var warnings []string
	for _, waypoint := range s.Waypoints {
		all[waypoint] = true
	}
	for agent := range s.SamplingFor {
		if !sources[agent] {
			warnings = append(warnings, fmt.Sprintf("sampling_for[%s]: %s is not a source", agent, agent))
		}
	}
	for agent := range s.Device {
		if !all[agent] {
			warnings = append(warnings, fmt.Sprintf("device[%s]: %s is not part of the session", agent, agent))
		}
	}
	slices.Sort(warnings)
	return warnings
}
