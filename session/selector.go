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

// Resolve finds the pairs that a specification means among the hosts: every source
// with every destination, no host with itself, and with Both the other way round
// too. They are ordered and each is there once.
//
// A word without = is an agent's name, and where no agent has it the key of a
// label. A word that is neither is a problem; a label, with =, that nobody has is
// only worth a warning, because agents may join later.
func Resolve(spec Spec, hosts []Host) (pairs []Pair, warnings []string, faults []Problem) {
	var found problems
	sources, sourceWarnings := found.choose("sources", spec.Sources, hosts)
	destinations, destinationWarnings := found.choose("destinations", spec.Destinations, hosts)
	warnings = append(sourceWarnings, destinationWarnings...)
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
			warnings = append(warnings, "no two agents match yet: nothing is measured before they join")
		} else {
			found.add("destinations", "an agent is not measured against itself: name another")
		}
	}
	warnings = append(warnings, spec.unused(pairs)...)
	return pairs, warnings, found
}

func comparePairs(a, b Pair) int {
	return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Destination, b.Destination))
}

// follows reports whether agents that join later can belong to the session.
func (s Spec) follows() bool {
	for _, text := range slices.Concat(s.Sources, s.Destinations) {
		if text == "*" || strings.Contains(text, "=") {
			return true
		}
	}
	return false
}

// choose gives the names of the hosts that one of the selectors fits.
func (p *problems) choose(field string, selectors []string, hosts []Host) (names map[string]bool, warnings []string) {
	names = map[string]bool{}
	for i, text := range selectors {
		chosen := selectHosts(text, hosts)
		for _, host := range chosen {
			names[host.Name] = true
			if !host.Connected && host.Name == text {
				warnings = append(warnings, fmt.Sprintf("%s is not connected: its measurements begin when it is", text))
			}
		}
		if len(chosen) > 0 {
			continue
		}
		if text == "*" || strings.Contains(text, "=") {
			warnings = append(warnings, fmt.Sprintf("%s: no agent has %s yet", field, text))
		} else {
			p.add(fmt.Sprintf("%s[%d]", field, i), "there is no agent %q, and none has a label of that name", text)
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

// unused warns of settings for single agents that are in no pair.
func (s Spec) unused(pairs []Pair) []string {
	sources, all := map[string]bool{}, map[string]bool{}
	for _, pair := range pairs {
		sources[pair.Source], all[pair.Source], all[pair.Destination] = true, true, true
	}
	var warnings []string
	for agent := range s.SamplingFor {
		if !sources[agent] {
			warnings = append(warnings, fmt.Sprintf("sampling_for[%s]: %s is no source", agent, agent))
		}
	}
	for agent := range s.Device {
		if !all[agent] {
			warnings = append(warnings, fmt.Sprintf("device[%s]: %s takes no part", agent, agent))
		}
	}
	slices.Sort(warnings)
	return warnings
}
