package alarm

import (
	"slices"
	"strings"
	"time"

	"pillion.dev/measure/flows"
)

// pair is what is known of a pair of agents in a session.
type pair struct {
	Subject
	// lastRow is when the last row arrived, lastTraffic when the last one with packets did, received when the last one
	// with packets that arrived at the destination did.
	lastRow, lastTraffic, received time.Time
	// generation of the labels by which the rules were selected.
	generation int
	sums       []*sum
	quiet      quiet
	silences   []*silence
	flowRules  []*Rule
	flows      map[flows.Flow]*flow
}

// silence is a rule on marked packets of which none arrives, for one pair.
type silence struct {
	rule *Rule
	phase
}

// flow is one that was lost whole in some interval.
type flow struct {
	rules   []*flowRule
	lastRow time.Time
}

// flowRule is a rule on flows that are lost whole, for one flow.
type flowRule struct {
	rule *Rule
	window
	phase
}

// choose makes the pair one of the rules that select it now; a built-in one gives way to a configured one on the same
// condition. What is known of rules that still do stays; it returns the others of which an alarm fires.
func (p *pair) choose(rules []*Rule, agents directory, generation int) (dropped []key) {
	sums, silences := p.sums, p.silences
	p.sums, p.silences, p.flowRules, p.generation = nil, nil, nil, generation
	for _, rule := range rules {
		if rule.On == AgentSilence || rule.On == Path || !agents.about(rule, p.Subject) || rule.builtIn && slices.ContainsFunc(rules, func(other *Rule) bool {
			return !other.builtIn && other.On == rule.On && agents.about(other, p.Subject)
		}) {
			continue
		}
		switch {
		case rule.sums():
			p.sums = append(p.sums, kept(sums, func(s *sum) bool { return s.rule == rule }, &sum{rule: rule}))
		case rule.On == Silence:
			p.silences = append(p.silences, kept(silences, func(s *silence) bool { return s.rule == rule }, &silence{rule: rule}))
		case rule.On == FlowSilence:
			p.flowRules = append(p.flowRules, rule)
		}
	}
	for _, s := range sums {
		if s.firing() && !slices.Contains(p.sums, s) {
			dropped = append(dropped, key{s.rule.Name, p.Subject})
		}
	}
	for _, s := range silences {
		if s.firing() && !slices.Contains(p.silences, s) {
			dropped = append(dropped, key{s.rule.Name, p.Subject})
		}
	}
	return dropped
}

// kept returns the one that there is, or else a fresh one.
func kept[T any](all []*T, is func(*T) bool, fresh *T) *T {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return fresh
}

// busy reports whether an alarm of the pair is active.
func (p *pair) busy() bool {
	for _, s := range p.sums {
		if s.firing() {
			return true
		}
	}
	for _, s := range p.silences {
		if s.firing() {
			return true
		}
	}
	return len(p.flows) > 0
}

// clone copies texts, which point into a batch that is released.
func (s Subject) clone() Subject {
	for _, text := range []*string{&s.Session, &s.Source, &s.Destination, &s.Agent, &s.Flow.Src, &s.Flow.Dst, &s.Flow.Proto} {
		*text = strings.Clone(*text)
	}
	return s
}

// quiet is what a source sent since its packets last arrived at the destination. Times are of the server's clock.
type quiet struct {
	// heard is the end of the latest interval in which packets arrived.
	heard time.Time
	// waiting are intervals in which packets were sent and of which the destination's rows may still arrive.
	waiting []departure
	// from and to are the beginning and the end of the intervals in which packets were sent and none arrived.
	from, to time.Time
	sent     uint64
	interval time.Duration
	// lastSent is when the last row of the source arrived.
	lastSent time.Time
}

// departure is an interval in which a source sent packets.
type departure struct {
	begin, end time.Time
	packets    uint64
}

// waitingMost bounds the intervals that wait for rows of a destination; the oldest give way.
const waitingMost = 64

// arrived takes an interval in which packets arrived.
func (q *quiet) arrived(end time.Time) {
	if end.After(q.heard) {
		q.heard = end
	}
	if end.After(q.from) {
		q.clear()
	}
}

// clear drops the intervals in which no packets arrived.
func (q *quiet) clear() { q.from, q.to, q.sent = time.Time{}, time.Time{}, 0 }

// left takes an interval in which packets were sent.
func (q *quiet) left(end time.Time, interval time.Duration, packets uint64, now time.Time) {
	if packets == 0 || interval < 0 {
		return
	}
	q.lastSent, q.interval = now, interval
	if len(q.waiting) == waitingMost {
		q.waiting = slices.Delete(q.waiting, 0, 1)
	}
	q.waiting = append(q.waiting, departure{end.Add(-interval), end, packets})
}

// settle judges the intervals that end between from and until, when the destination's rows are known to be
// complete. Packets sent before from prove nothing, since the destination may not have been there.
func (q *quiet) settle(from, until time.Time) {
	if q.from.Before(from) {
		q.clear()
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(d departure) bool {
		if d.end.After(until) {
			return false
		}
		// Packets of an interval that began before the last arrival may be those that arrived.
		if !d.begin.Before(from) && !d.begin.Before(q.heard.Add(-quietSlack)) {
			if q.from.IsZero() {
				q.from = d.begin
			}
			if d.end.After(q.to) {
				q.to = d.end
			}
			q.sent += d.packets
		}
		return true
	})
}

// holds reports whether enough packets were sent for long enough and none arrived. Rows of the destination may be
// an interval later than rows of the source.
func (q *quiet) holds(rule *Rule) bool {
	return !q.from.IsZero() && q.sent >= rule.Packets && q.to.Sub(q.from) >= max(rule.Over, 2*q.interval+quietSlack)
}

// quietSlack is how far the clocks of two agents, as the server knows them, may differ.
const quietSlack = 250 * time.Millisecond
