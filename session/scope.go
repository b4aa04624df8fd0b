package session

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Scope says which agents and pairs of agents somebody may see. Each part is a selector of agents, or SOURCE:DESTINATION
// with a selector on either side. A selector is key=value, the name of an agent, or *. Unlike in a session, a name is never
// the key of a label: a host that joins under that name later would change what it means.
type Scope []string

const scopeMost = 100 // parts

// Check returns why a scope is invalid, or nil.
func (s Scope) Check() error {
	if len(s) == 0 || len(s) > scopeMost {
		return fmt.Errorf("read scope: %d parts, want 1 to %d", len(s), scopeMost)
	}
	for _, part := range s {
		if len(part) > 300 {
			return fmt.Errorf("read scope: a part of %d bytes", len(part))
		}
		for _, selector := range strings.SplitN(part, ":", 2) {
			key, value, label := strings.Cut(selector, "=")
			if selector != "*" && !(label && value != "" && ValidLabel(key, value)) && (label || !ValidName(selector)) {
				return fmt.Errorf("read scope %q: %q is not a label (key=value), an agent name or *; write a pair of them as SOURCE:DESTINATION", part, selector)
			}
		}
	}
	return nil
}

// Ends are sources and destinations by name, sorted.
type Ends struct{ Sources, Destinations []string }

// Resolve returns the names of the hosts that a scope selects, sorted, and every pair that it permits: all pairs of
// agents of one selector, and the pairs that are named.
func (s Scope) Resolve(hosts []Host) (agents []string, links []Ends) {
	hosts = slices.SortedFunc(slices.Values(hosts), func(a, b Host) int { return cmp.Compare(a.Name, b.Name) })
	var alone []string
	for _, part := range s {
		source, destination, pair := strings.Cut(part, ":")
		if pair {
			links = append(links, Ends{scopeNames(source, hosts), scopeNames(destination, hosts)})
		} else {
			alone = append(alone, scopeNames(source, hosts)...)
		}
	}
	slices.Sort(alone)
	if agents = slices.Compact(alone); len(agents) > 0 {
		links = append(links, Ends{agents, agents})
	}
	return agents, links
}

// Names reports whether a selector of the scope is that label.
func (s Scope) Names(key, value string) bool {
	return slices.ContainsFunc(s, func(part string) bool {
		return slices.Contains(strings.SplitN(part, ":", 2), key+"="+value)
	})
}

func scopeNames(selector string, hosts []Host) (names []string) {
	key, value, label := strings.Cut(selector, "=")
	for _, host := range hosts {
		held, has := host.Labels[key]
		if selector == "*" || label && has && held == value || !label && host.Name == selector {
			names = append(names, host.Name)
		}
	}
	return names
}

// HowOnly returns the part of a specification that says how and when is measured, not on which hosts, nor which of their
// packets: the settings, and the fields that it names.
func (s Spec) HowOnly() Spec {
	how := Spec{
		Name: s.Name, Modules: s.Modules, Records: s.Records, Start: s.Start, Duration: s.Duration, Cron: s.Cron, TimeZone: s.TimeZone,
	}
	how.Sampling = s.Sampling
	for _, one := range settings {
		if one.Field != nil {
			reflect.ValueOf(one.Field(&how)).Elem().Set(reflect.ValueOf(one.Field(&s)).Elem())
		}
	}
	return how
}
