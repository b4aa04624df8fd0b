package runner

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pillion.dev/probe/destination"
)

// remembered is what was wanted of a peer, by rules without regard to tags: the time is when it last was.
type remembered struct {
	selected map[destination.Rule]time.Duration // the rule was one of the peer
	untagged map[destination.Rule]time.Duration // marks in packets that it selects needed no tag
}

// note records what is wanted now. Where sessions with and without authentication measure the same
// packets, their marks need a tag.
func (m remembered) note(peer destination.Peer, now time.Duration) {
	rules := peer.Rules
	if peer.Unread {
		clear(m.untagged)
	} else if len(rules) == 0 {
		rules = []destination.Rule{{Filter: everything}}
	}
	for _, rule := range rules {
		m.selected[bare(rule)] = now
		if len(peer.Keys) == 0 || rule.Untagged && !overlapsTagged(rule, rules) {
			m.untagged[bare(rule)] = now
		}
	}
	maps.DeleteFunc(m.selected, func(_ destination.Rule, seen time.Duration) bool { return now-seen >= strictAfter })
	maps.DeleteFunc(m.untagged, func(_ destination.Rule, seen time.Duration) bool { return now-seen >= strictAfter })
}

// rules returns the rules of packets whose marks may still be on their way. Marks need no tag yet where they needed
// none a short time ago. A rule that is no longer wanted does not require a tag of marks that a wanted rule accepts
// without one.
func (m remembered) rules(peer destination.Peer, now time.Duration) (rules []destination.Rule) {
	wanted := slices.DeleteFunc(slices.Clone(peer.Rules), func(r destination.Rule) bool { return !r.Untagged })
	for rule, seen := range m.selected {
		rule.Untagged = len(peer.Keys) > 0 && (m.spares(rule) || slices.ContainsFunc(wanted, func(w destination.Rule) bool {
			return bare(w) == rule && !slices.Contains(peer.Rules, rule) || seen < now && w.Overlaps(rule.Filter)
		}))
		rules = append(rules, rule)
	}
	return rules
}

// spares reports whether marks of some packets that the rule selects needed no tag a short time ago.
func (m remembered) spares(rule destination.Rule) bool {
	for before := range m.untagged {
		if before.Overlaps(rule.Filter) {
			return true
		}
	}
	return false
}

// bare is the rule without regard to tags.
func bare(rule destination.Rule) destination.Rule {
	rule.Untagged = false
	return rule
}

func overlapsTagged(rule destination.Rule, rules []destination.Rule) bool {
	return slices.ContainsFunc(rules, func(r destination.Rule) bool { return !r.Untagged && r.Overlaps(rule.Filter) })
}

// untaggedLimits adds which marks of sessions without authentication are rejected: those in packets that
// a session with authentication measures as well.
func untaggedLimits(tasks []destinationTask, limits map[string]string) {
	for _, task := range tasks {
		if task.Authenticated || !readsMarks(task) {
			continue
		}
		for _, other := range tasks {
			if !other.Authenticated || !readsMarks(other) || !overlapping(task, other) {
				continue
			}
			if agent := commonOrigin(task, other); agent != "" {
				limits[task.Session] = fmt.Sprintf("marks of %s need a tag in packets that session %s measures as well: without authentication they are rejected", agent, other.Session)
			}
		}
	}
}

// overlapping reports whether the filters of two tasks select some packet both.
func overlapping(a, b destinationTask) bool {
	for _, rule := range a.rules(false) {
		if slices.ContainsFunc(b.rules(false), func(r destination.Rule) bool { return r.Overlaps(rule.Filter) }) {
			return true
		}
	}
	return false
}

// commonOrigin returns an agent whose marks both tasks read.
func commonOrigin(a, b destinationTask) string {
	theirs := b.origins()
	for from, agent := range a.origins() {
		if _, ok := theirs[from]; ok {
			return agent
		}
	}
	return ""
}
