package alarm

import (
	"fmt"
	"maps"
	"time"

	"pillion.dev/measure/flows"
)

// judgeSilence evaluates whether packets are sent and none arrives.
func (e *Evaluator) judgeSilence(p *pair, now time.Time) {
	if len(p.silences) == 0 {
		return
	}
	q := &p.quiet
	if len(q.waiting) > 0 || !q.from.IsZero() {
		q.settle(e.Agents.Covers(p.Session, p.Destination))
	}
	idle := now.Sub(q.lastSent) >= max(silentFor, 2*q.interval)
	for _, s := range p.silences {
		holds := q.holds(s.rule) && !idle
		k := key{s.rule.Name, p.Subject}
		switch s.judge(s.rule, holds, idle || !q.holds(s.rule) && q.heard.After(s.since), now) {
		case begins:
			s.since = clamp(q.from, now)
			e.begin(k, s.rule, &s.phase, now, fmt.Sprintf("%s: no marked packet arrived for %s: %s were sent", k.words(), span(q.to.Sub(q.from).Round(100*time.Millisecond)), count(q.sent)))
		case ends:
			over, why := "packets arrive again", "at "+p.Destination
			if idle {
				over, why = "silence is over", "no more packets are sent"
			}
			e.end(k, &s.phase, s.calm, now, over, why)
		}
	}
}

// clamp is a time that is not in the future.
func clamp(at, now time.Time) time.Time {
	if at.After(now) {
		return now
	}
	return at
}

// flowsOfPair bounds the flows that are kept of one pair.
const flowsOfPair = 256

// addFlow counts packets of a flow that is, or was, lost whole.
func (e *Evaluator) addFlow(p *pair, row *flows.Row, now time.Time) {
	lost := row.Packets == 0 && row.Lost > 0 && row.Lost == row.Expected
	if len(p.flowRules) == 0 || !lost && len(p.flows) == 0 || row.Dst == "" || row.Proto == "" {
		return // rows of pairs of hosts do not name flows
	}
	f := p.flows[row.Flow]
	if f == nil {
		if !lost || len(p.flows) >= flowsOfPair {
			return
		}
		if len(e.pairs)+e.flows >= e.PairsMost {
			e.refused++
			return
		}
		f = &flow{}
		for _, rule := range p.flowRules {
			f.rules = append(f.rules, &flowRule{rule: rule})
		}
		if p.flows == nil {
			p.flows = map[flows.Flow]*flow{}
		}
		p.flows[Subject{Flow: row.Flow}.clone().Flow] = f
		e.flows++
	}
	f.lastRow = now
	for _, r := range f.rules {
		if at, old, _ := r.move(row.End, now, r.rule.Over, row.Interval); !old {
			r.window.add(at, r.rule.Over, row.Lost, max(row.Expected, row.Packets), 0)
		}
	}
}

// judgeFlows evaluates the flows of a pair after new rows. While nothing of the pair arrives, that is the alarm.
func (e *Evaluator) judgeFlows(p *pair, now time.Time) {
	for name, f := range p.flows {
		if !f.lastRow.Equal(now) {
			continue
		}
		for _, r := range f.rules {
			sums := r.sums(r.rule.Over)
			whole := sums.bad > 0 && sums.bad == sums.total
			healthy := now.Sub(p.received) < max(r.rule.Over, 2*r.span)
			k := key{r.rule.Name, p.Subject}
			k.Flow = name
			switch r.judge(r.rule, whole && healthy && sums.bad >= r.rule.Packets, !whole, r.newest) {
			case begins:
				e.begin(k, r.rule, &r.phase, now, fmt.Sprintf("%s: lost whole: none of %s packets in %s arrived, others of the pair do",
					k.words(), count(sums.bad), span(r.span)))
			case ends:
				e.end(k, &r.phase, r.calm, now, "the flow arrives again", "at "+p.Destination)
			}
		}
	}
}

// lapseFlows ends the alarms of flows without packets, and forgets those that are not lost any more.
func (e *Evaluator) lapseFlows(p *pair, now time.Time) {
	for name, f := range p.flows {
		keep := false
		for _, r := range f.rules {
			wait := max(silentFor, 2*r.span)
			if r.firing() && now.Sub(f.lastRow) >= wait {
				k := key{r.rule.Name, p.Subject}
				k.Flow = name
				e.end(k, &r.phase, r.newest, now, "loss is over", "no packets of the flow for "+span(wait))
			}
			keep = keep || r.firing() || r.sums(r.rule.Over).bad > 0 && now.Sub(f.lastRow) < max(2*r.rule.Over, 2*r.span)
		}
		if !keep {
			e.removeFlow(p, name)
		}
	}
}

// phase returns the phase of an agent or of a path, which it adds if there is none.
func (e *Evaluator) phase(k key) *phase {
	p := e.others[k]
	if p == nil {
		p = &phase{}
		k.Subject = k.clone()
		e.others[k] = p
	}
	return p
}

// judgeAgents evaluates which agents with tasks do not report.
func (e *Evaluator) judgeAgents(now time.Time) {
	for _, rule := range e.rules {
		if rule.On != AgentSilence {
			continue
		}
		unheard := map[string]bool{}
		for _, name := range e.Agents.Unheard(rule.Over) {
			if !e.agents.selects(rule.Agents, name) {
				continue
			}
			unheard[name] = true
			k := key{rule.Name, Subject{Agent: name}}
			if p := e.phase(k); p.judge(rule, true, false, now) == begins {
				e.begin(k, rule, p, now, fmt.Sprintf("%s has tasks and has not reported for %s", name, span(rule.Over)))
			}
		}
		for k, p := range maps.Clone(e.others) {
			if k.rule != rule.Name || unheard[k.Agent] {
				continue
			}
			if p.judge(rule, false, true, now) == ends {
				e.end(k, p, p.calm, now, "silence is over", "it reports, or has no tasks any more")
			}
			if !p.firing() {
				delete(e.others, k)
			}
		}
	}
}

// PathChanged takes the change of the path of a pair.
func (e *Evaluator) PathChanged(at time.Time, session, source, destination, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	if at.IsZero() || at.After(now) {
		at = now
	}
	subject := Subject{Session: session, Source: source, Destination: destination}
	for _, rule := range e.rules {
		if rule.On != Path || !e.agents.about(rule, subject) {
			continue
		}
		k := key{rule.Name, subject}
		p := e.others[k]
		if p == nil && len(e.others) >= e.PairsMost {
			e.refused++
			continue
		}
		p = e.phase(k)
		begun := p.judge(rule, true, false, at) == begins
		p.calm = now // of which it ends
		if begun {
			e.begin(k, rule, p, now, message)
		}
	}
}

// lapsePaths ends the alarms of paths that have not changed for long enough.
func (e *Evaluator) lapsePaths(now time.Time) {
	for _, rule := range e.rules {
		if rule.On != Path {
			continue
		}
		for k, p := range maps.Clone(e.others) {
			if k.rule == rule.Name && p.judge(rule, false, true, now) == ends {
				e.end(k, p, now, now, "the path is stable", "no further change for "+span(rule.KeepFiringFor))
				delete(e.others, k)
			}
		}
	}
}
