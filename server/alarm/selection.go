package alarm

import (
	"maps"
	"slices"
	"strings"
)

// directory has the labels of agents, by name.
type directory map[string]map[string]string

// selects reports whether any of the selectors, in the syntax of sessions, selects an agent; none select all.
func (d directory) selects(selectors []string, agent string) bool {
	return len(selectors) == 0 || slices.ContainsFunc(selectors, func(text string) bool {
		name, value, exact := strings.Cut(text, "=")
		own, has := d[agent][name]
		switch {
		case text == "*" || text == agent:
			return true
		case exact:
			return has && own == value
		}
		_, isAgent := d[text]
		return has && !isAgent
	})
}

// about reports whether a rule is about a pair of agents.
func (d directory) about(r *Rule, s Subject) bool {
	return (len(r.Sessions) == 0 || slices.Contains(r.Sessions, s.Session)) &&
		d.selects(r.Sources, s.Source) && d.selects(r.Destinations, s.Destination)
}

// equal reports whether all labels of all agents are the same.
func (d directory) equal(o directory) bool {
	return maps.EqualFunc(d, o, func(a, b map[string]string) bool { return maps.Equal(a, b) })
}
