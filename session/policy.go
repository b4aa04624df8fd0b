package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// Policy is how a source marks the packets of a rule.
type Policy struct {
	Modules  string // names, separated by commas
	Encoding string
	wire.Marking
	// Filters of an aggregate, empty for flows by all fields: two sessions with other filters do
	// not share numbers.
	Filters       string
	Authenticated bool
	// Ingress is the number of the agent if it marks packets that it forwards; 0: it does not.
	Ingress uint32
}

// Claim is what one session asks of a source: to mark the packets that a filter matches by a
// policy.
type Claim struct {
	Session string
	Policy
	Filters []fivetuple.Filter
}

// Policies returns how a source marks for the sessions of these tasks on one interface: see
// Unite. Tasks whose packets overlap agree as Fits requires.
func Policies(tasks []SourceTask) ([]Policy, []Rule, error) {
	claims := make([]Claim, len(tasks))
	for i := range tasks {
		claims[i] = Claim{tasks[i].Session, tasks[i].Policy(), tasks[i].rules()}
	}
	return Unite(claims)
}

// Unite returns the policies and rules by which a source satisfies all claims. A packet that several claims want is
// marked once, with the modules of all of them and a sampling that selects every packet that one of their samplings
// selects; everything else is as in the first claim. Other packets are marked as the one claim asks.
func Unite(claims []Claim) ([]Policy, []Rule, error) {
	var policies []Policy
	var rules []Rule
	number := func(p Policy) int {
		if i := slices.Index(policies, p); i >= 0 {
			return i
		}
		policies = append(policies, p)
		return len(policies) - 1
	}
	for _, claim := range claims {
		own, united := number(claim.Policy), func(existing int) int { return number(policies[existing].unite(claim.Policy)) }
		for _, filter := range claim.Filters {
			rules = addRule(rules, filter, own, united)
			if len(rules) > RulesMax {
				return nil, nil, fmt.Errorf("%s mark differently and, combined with the addresses of sources and destinations, need more than the %d rules that a source supports; "+
					"use the same settings, or an interface for each", sessionsOf(claims), RulesMax)
			}
		}
	}
	policies, rules = renumber(policies, rules)
	if len(policies) > wire.PoliciesMax {
		return nil, nil, fmt.Errorf("%s mark in %d different ways; a source supports %d; use the same settings, or an interface for each",
			sessionsOf(claims), len(policies), wire.PoliciesMax)
	}
	return policies, rules, nil
}

// Satisfies reports whether marks by the policy are all that the claim asks for.
func (p Policy) Satisfies(claim Claim) bool { return p.unite(claim.Policy) == p }

// Wants reports whether the claim is for packets that the rule matches.
func (c Claim) Wants(rule Rule) bool {
	return slices.ContainsFunc(c.Filters, func(f fivetuple.Filter) bool { return f.Overlaps(rule.Filter) })
}

// addRule adds a rule behind those that exist. Where it overlaps one of them and changes its
// policy, a rule for the packets of both precedes that one.
func addRule(rules []Rule, filter fivetuple.Filter, own int, united func(existing int) int) []Rule {
	var next []Rule
	add := func(rule Rule) {
		if !slices.ContainsFunc(next, func(earlier Rule) bool { return earlier.Covers(rule.Filter) }) {
			next = append(next, rule)
		}
	}
	for _, rule := range rules {
		if both, ok := rule.Intersect(filter); ok {
			if policy := united(rule.Policy); policy != rule.Policy {
				add(Rule{Filter: both, Policy: policy})
			}
		}
		add(rule)
	}
	add(Rule{Filter: filter, Policy: own})
	return next
}

// renumber removes the policies that no rule has.
func renumber(policies []Policy, rules []Rule) (used []Policy, renumbered []Rule) {
	for _, rule := range rules {
		policy := policies[rule.Policy]
		rule.Policy = slices.Index(used, policy)
		if rule.Policy < 0 {
			used = append(used, policy)
			rule.Policy = len(used) - 1
		}
		renumbered = append(renumbered, rule)
	}
	return used, renumbered
}

// Policy is how the task has its packets marked.
func (t *SourceTask) Policy() Policy {
	return Policy{
		Modules: strings.Join(slices.Sorted(slices.Values(t.Modules)), ","), Encoding: t.Encoding, Marking: t.Marking,
		Filters: aggregated(*t), Authenticated: t.Authenticated, Ingress: t.Number,
	}
}

// unite returns the policy of packets that another session measures as well.
func (p Policy) unite(o Policy) Policy {
	modules := append(strings.Split(p.Modules, ","), strings.Split(o.Modules, ",")...)
	slices.Sort(modules)
	p.Modules = strings.Join(slices.Compact(modules), ",")
	p.Sampling = p.Sampling.Unite(o.Sampling)
	if idle := defaultDuration("idle"); p.Idle != o.Idle {
		p.Idle = max(cmp.Or(p.Idle, idle), cmp.Or(o.Idle, idle))
	}
	return p
}

func sessionsOf(claims []Claim) string {
	var names []string
	for _, claim := range claims {
		names = append(names, claim.Session)
	}
	return "the sessions " + strings.Join(names, ", ")
}
