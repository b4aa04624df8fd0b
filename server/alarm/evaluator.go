package alarm

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"pillion.dev/measure/flows"
	"pillion.dev/server/event"
	"pillion.dev/server/store"
)

// Agents is what the rules need to know of agents.
type Agents interface {
	// Labels returns the labels of all agents, by name.
	Labels() map[string]map[string]string
	// Covers returns the time, by the server's clock, for which all rows of an agent about what it received in a session
	// have arrived; zero times: none.
	Covers(session, agent string) (from, until time.Time)
	// ClockAhead is how far the clock of an agent is ahead of the server's.
	ClockAhead(agent string) time.Duration
	// Unheard returns the agents that have tasks and have not reported for so long.
	Unheard(since time.Duration) []string
}

// Options of an Evaluator.
type Options struct {
	// Rules are complete.
	Rules []Rule
	// PairsMost pairs, and flows that are lost whole, are watched, about 1.6 KB each; AlarmsMost alarms may be active.
	PairsMost, AlarmsMost int
	Events                event.Sink
	Agents                Agents
	// Store keeps alarms and silences.
	Store store.Store
	// SiteLabel is the label that names the site of an agent.
	SiteLabel string
	Log       *slog.Logger
	// Now is the time; default time.Now.
	Now func() time.Time
}

const (
	// An alarm of a pair ends if no packets were expected for this long.
	silentFor = 60 * time.Second
	// agentShare is the part of all pairs that one agent may report.
	agentShare = 8
	// idleFor is the time without rows after which the state of a pair is deleted.
	idleFor = 10 * time.Minute
	// labelsEvery is how often labels of agents are read.
	labelsEvery = 5 * time.Second

	// eventsMost events are raised individually in each eventsEvery, the rest as one.
	eventsMost  = 50
	eventsEvery = time.Minute
)

// Evaluator evaluates rules. It is safe for concurrent use.
type Evaluator struct {
	Options
	rules   []*Rule
	changed chan struct{}

	mu    sync.Mutex
	pairs map[Subject]*pair
	of    map[string]int // pairs by destination
	// flows that are kept, of all pairs.
	flows int
	// others are the phases of agents and of paths.
	others map[key]*phase
	agents directory
	// generation counts changes of agents; labelled is when they were last read.
	generation int
	labelled   time.Time
	// refused are rows of pairs beyond the limit.
	refused uint64
	// raised counts events since begun, hidden the alarms beyond eventsMost.
	begun          time.Time
	raised, hidden int

	state state
}

// New returns an Evaluator without rows, which raises no alarms until Load.
func New(o Options) *Evaluator {
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &Evaluator{
		Options: o, changed: make(chan struct{}, 1),
		pairs: map[Subject]*pair{}, of: map[string]int{}, others: map[key]*phase{},
	}
	for i := range o.Rules {
		if !o.Rules[i].Disabled {
			e.rules = append(e.rules, &o.Rules[i])
		}
	}
	return e
}

// has reports whether a rule has the condition.
func (e *Evaluator) has(on string) bool {
	for _, rule := range e.rules {
		if rule.On == on {
			return true
		}
	}
	return false
}

// WatchesSent reports whether a rule needs the rows of sources.
func (e *Evaluator) WatchesSent() bool { return e.has(Silence) }

// find returns the pair, which it adds if needed; nil if there are too many.
func (e *Evaluator) find(s Subject) *pair {
	p := e.pairs[s]
	if p == nil {
		if len(e.pairs)+e.flows >= e.PairsMost || e.of[s.Destination] >= max(1, e.PairsMost/agentShare) {
			e.refused++
			return nil
		}
		s = s.clone()
		p = &pair{Subject: s, generation: -1}
		e.pairs[s] = p
		e.of[s.Destination]++
	}
	if p.generation != e.generation {
		for _, k := range p.choose(e.rules, e.agents, e.generation) {
			if a := e.state.byKey[k]; a != nil && e.state.leads {
				e.close(a, e.Now(), e.Now(), k.words()+": the rule does not apply any more: labels of agents have changed")
			}
		}
	}
	return p
}

// Kept returns the number of pairs and flows, and the number of rows of further ones, which raise no alarm.
func (e *Evaluator) Kept() (pairs int, refused uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.pairs) + e.flows, e.refused
}

func (e *Evaluator) remove(p *pair) {
	for f := range p.flows {
		e.removeFlow(p, f)
	}
	delete(e.pairs, p.Subject)
	if e.of[p.Destination]--; e.of[p.Destination] == 0 {
		delete(e.of, p.Destination)
	}
}

func (e *Evaluator) removeFlow(p *pair, f flows.Flow) {
	delete(p.flows, f)
	e.flows--
}

// Tick ends alarms of pairs without traffic, removes idle pairs, and raises the summary of hidden events. It
// is called about once a second.
func (e *Evaluator) Tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	if now.Sub(e.labelled) >= labelsEvery {
		e.labelled = now
		if agents := directory(e.Agents.Labels()); !agents.equal(e.agents) {
			e.agents = agents
			e.generation++
		}
	}
	for _, p := range e.pairs {
		e.lapse(p, now)
		e.lapseFlows(p, now)
		e.judgeSilence(p, now)
		if !p.busy() && now.Sub(p.lastRow) >= idleFor && now.Sub(p.quiet.lastSent) >= idleFor {
			e.remove(p)
		}
	}
	e.judgeAgents(now)
	e.lapsePaths(now)
	e.state.tick(now)
	e.summarize(now)
}

// lapse ends the alarms of a pair without traffic.
func (e *Evaluator) lapse(p *pair, now time.Time) {
	for _, s := range p.sums {
		if wait := max(silentFor, 2*s.span); s.firing() && now.Sub(p.lastTraffic) >= wait {
			e.end(key{s.rule.Name, p.Subject}, &s.phase, s.newest, now, s.over(), s.atWorst()+"; no packets for "+span(wait)+", so the current figure is unknown")
		}
	}
}

// summarize raises the event of the alarms that had none.
func (e *Evaluator) summarize(now time.Time) {
	if e.hidden == 0 || now.Sub(e.begun) < eventsEvery {
		return
	}
	e.Events.Event(event.Event{Time: now, Kind: Loss, Level: event.Warning, Message: fmt.Sprintf(
		"%d more alarms began in the last %s", e.hidden, span(now.Sub(e.begun).Round(time.Second)))})
	e.hidden = 0
}

// mayShow reports whether the beginning of another alarm may be reported individually, and counts it.
func (e *Evaluator) mayShow(now time.Time) bool {
	if now.Sub(e.begun) >= eventsEvery && e.hidden == 0 {
		e.begun, e.raised = now, 0
	}
	if e.raised >= eventsMost {
		e.hidden++
		return false
	}
	e.raised++
	return true
}

// AllRules returns the rules, disabled ones included.
func (e *Evaluator) AllRules() []Rule { return e.Rules }
