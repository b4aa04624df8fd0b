package alarm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"pillion.dev/measure/flows"
	"pillion.dev/server/event"
	"pillion.dev/server/store"
)

// Collection and its sections.
const (
	collection   = "alarms"
	alarmsKept   = "alarms"
	silencesKept = "silences"
	sentKept     = "notifications"
)

// Collections of the state.
var Collections = []string{collection}

// endedFor is how long alarms are listed after their end, expiredFor silences.
const (
	endedFor   = 15 * time.Minute
	expiredFor = 24 * time.Hour
)

// state is what the store keeps. Its items are replaced, not changed.
type state struct {
	// leads: it was loaded, and this server may change it.
	leads    bool
	alarms   map[string]*Alarm // by ID
	byKey    map[key]*Alarm    // active ones
	silences map[string]*SilenceRecord
	// sent are the records of notifications, by group.
	sent map[string]json.RawMessage
	// changed are the keys of items that differ from the store.
	changed map[string]bool
	// refused alarms were beyond the limit.
	refused uint64
}

// tick forgets what ended long ago.
func (s *state) tick(now time.Time) {
	for id, a := range s.alarms {
		if !a.Active() && now.Sub(a.Ended) >= endedFor {
			delete(s.alarms, id)
			s.changed[store.Key(alarmsKept, id)] = true
		}
	}
	for id, silence := range s.silences {
		if now.Sub(silence.Ends) >= expiredFor {
			delete(s.silences, id)
			s.changed[store.Key(silencesKept, id)] = true
		}
	}
}

// put makes an alarm part of the state.
func (s *state) put(a *Alarm) {
	s.alarms[a.ID] = a
	if a.Active() {
		s.byKey[a.key()] = a
	} else {
		delete(s.byKey, a.key())
	}
	s.changed[store.Key(alarmsKept, a.ID)] = true
}

// Load reads the state and begins to raise alarms: what began or ended while no server led is made up for. The
// caller calls Unload when another server may lead.
func (e *Evaluator) Load(ctx context.Context) error {
	kept, err := e.Store.Load(ctx, collection)
	if err != nil {
		return fmt.Errorf("load alarms: %w", err)
	}
	loaded := state{
		alarms: map[string]*Alarm{}, byKey: map[key]*Alarm{}, silences: map[string]*SilenceRecord{},
		sent: map[string]json.RawMessage{}, changed: map[string]bool{},
	}
	for name, item := range kept {
		if err := loaded.add(name, item); err != nil {
			return fmt.Errorf("load alarms: %s: %w", name, err)
		}
	}
	loaded.changed, loaded.leads = map[string]bool{}, true
	e.mu.Lock()
	defer e.mu.Unlock()
	loaded.refused = e.state.refused
	e.state = loaded
	e.agents, e.labelled = e.Agents.Labels(), e.Now()
	e.generation++
	e.reconcile(e.Now())
	return nil
}

// Unload ends what Load began.
func (e *Evaluator) Unload() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.leads = false
}

func (s *state) add(name string, item []byte) error {
	section, own := store.Own(name)
	switch section {
	case alarmsKept:
		a := &Alarm{}
		if err := json.Unmarshal(item, a); err != nil {
			return err
		}
		s.put(a)
	case silencesKept:
		silence := &SilenceRecord{}
		if err := json.Unmarshal(item, silence); err != nil {
			return err
		}
		if err := silence.parse(); err != nil {
			return err
		}
		s.silences[own] = silence
	case sentKept:
		s.sent[own] = item
	}
	return nil
}

// reconcile makes what this server has seen agree with the state: alarms of the state fire here, too, until rows say
// that they are over, and what fires here is an alarm.
func (e *Evaluator) reconcile(now time.Time) {
	for _, a := range slices.Collect(maps.Values(e.state.byKey)) {
		i := slices.IndexFunc(e.rules, func(r *Rule) bool { return r.Name == a.Rule })
		if i < 0 {
			e.close(a, now, now, "the rule was removed")
			continue
		}
		if p := e.phaseOf(e.rules[i], a.Subject, now); e.state.byKey[a.key()] == nil {
			continue // it has just ended, since labels of agents have changed
		} else if p == nil {
			e.close(a, now, now, "the rule changed")
		} else if !p.firing() {
			*p = phase{since: a.Began, worst: p.worst}
			if e.rules[i].On == Path {
				p.calm = now
			}
		}
	}
	e.each(func(k key, rule *Rule, p *phase) {
		if p.firing() && e.state.byKey[k] == nil {
			e.begin(k, rule, p, now, fmt.Sprintf("%s: %s since %s", k.words(), rule.On, p.since.UTC().Format(time.RFC3339)))
		}
	})
}

// phaseOf returns the phase of a rule for a subject, which it adds; nil: the rule does not select it.
func (e *Evaluator) phaseOf(rule *Rule, s Subject, now time.Time) *phase {
	switch rule.On {
	case AgentSilence, Path:
		if rule.On == Path && !e.agents.about(rule, s) {
			return nil
		}
		return e.phase(key{rule.Name, s})
	}
	p := e.find(s.pair())
	if p == nil {
		return nil
	}
	if p.lastTraffic.IsZero() { // it may have had rows that this server did not see
		p.lastRow, p.lastTraffic, p.quiet.lastSent = now, now, now
	}
	for _, one := range p.sums {
		if one.rule == rule {
			return &one.phase
		}
	}
	for _, one := range p.silences {
		if one.rule == rule {
			return &one.phase
		}
	}
	return p.phaseOfFlow(e, rule, s.Flow, now)
}

// phaseOfFlow is phaseOf for a flow of the pair.
func (p *pair) phaseOfFlow(e *Evaluator, rule *Rule, name flows.Flow, now time.Time) *phase {
	f := p.flows[name]
	if f == nil {
		if p.flows == nil {
			p.flows = map[flows.Flow]*flow{}
		}
		f = &flow{lastRow: now}
		for _, one := range p.flowRules {
			f.rules = append(f.rules, &flowRule{rule: one})
		}
		p.flows[name] = f
		e.flows++
	}
	for _, one := range f.rules {
		if one.rule == rule {
			return &one.phase
		}
	}
	return nil
}

// each calls do with all phases.
func (e *Evaluator) each(do func(k key, rule *Rule, p *phase)) {
	for _, p := range e.pairs {
		for _, s := range p.sums {
			do(key{s.rule.Name, p.Subject}, s.rule, &s.phase)
		}
		for _, s := range p.silences {
			do(key{s.rule.Name, p.Subject}, s.rule, &s.phase)
		}
		for name, f := range p.flows {
			for _, r := range f.rules {
				k := key{r.rule.Name, p.Subject}
				k.Flow = name
				do(k, r.rule, &r.phase)
			}
		}
	}
	for _, rule := range e.rules {
		for k, p := range e.others {
			if k.rule == rule.Name {
				do(k, rule, p)
			}
		}
	}
}

// begin raises an alarm, if this server leads.
func (e *Evaluator) begin(k key, rule *Rule, p *phase, now time.Time, summary string) {
	if !e.state.leads || e.state.byKey[k] != nil {
		return
	}
	if len(e.state.byKey) >= e.AlarmsMost {
		e.state.refused++
		return
	}
	a := &Alarm{
		Rule: rule.Name, Subject: k.Subject, Labels: labelsOf(rule, k.Subject, e.site), Annotations: maps.Clone(rule.Annotations),
		Summary: summary, Began: clamp(p.since, now).UTC(), Shown: e.mayShow(now),
	}
	a.ID = idOf(rule, k.Subject)
	if a.Annotations == nil {
		a.Annotations = map[string]string{}
	}
	a.Annotations[annotationSummary] = summary
	e.state.put(a)
	if a.Shown {
		e.event(a, rule, a.Began, "", summary)
	}
	e.signal()
}

// site returns the site of an agent, or nothing.
func (e *Evaluator) site(agent string) string { return e.agents[agent][e.SiteLabel] }

// end ends the alarm of a phase, if there is one.
func (e *Evaluator) end(k key, p *phase, at, now time.Time, over, why string) {
	since := p.since
	p.end()
	if a := e.state.byKey[k]; a != nil && e.state.leads {
		at = clamp(at, now)
		e.close(a, at, now, fmt.Sprintf("%s: %s after %s, %s", k.words(), over, span(max(at.Sub(since), 0).Round(time.Second)), why))
	}
}

// close makes an alarm one that has ended.
func (e *Evaluator) close(a *Alarm, at, now time.Time, why string) {
	ended := *a
	ended.Ended, ended.Ending = now.UTC(), why
	e.state.put(&ended)
	if a.Shown {
		i := slices.IndexFunc(e.Rules, func(r Rule) bool { return r.Name == a.Rule })
		rule := &Rule{Name: a.Rule}
		if i >= 0 {
			rule = &e.Rules[i]
		}
		e.event(a, rule, at, "-ended", why)
	}
	e.signal()
}

// event raises an event with the time of the rows, so that charts show it where the loss is. Built-in rules have kinds of
// their own.
func (e *Evaluator) event(a *Alarm, rule *Rule, at time.Time, suffix, message string) {
	one := event.Event{Time: at, Kind: "alarm" + suffix, Level: event.Warning, Agent: a.Source, Peer: a.Destination, Session: a.Session, Message: message}
	if rule.builtIn {
		one.Kind = rule.Name + suffix
	} else {
		one.Message = rule.Name + ": " + message
	}
	switch {
	case suffix != "":
		one.Level = event.Info
	case rule.Severity == "critical" || rule.Severity == "error":
		one.Level = event.Error
	}
	if a.Agent != "" {
		one.Agent = a.Agent
	} else if a.Source == "" {
		one.Agent, one.Peer = a.Destination, ""
	}
	e.Events.Event(one)
}

// signal says that alarms changed.
func (e *Evaluator) signal() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// Changed receives after alarms, acknowledgements or silences changed.
func (e *Evaluator) Changed() <-chan struct{} { return e.changed }

// Save writes what changed. After an error that is a store.ErrChanged the state is to be loaded again.
func (e *Evaluator) Save(ctx context.Context) error {
	e.mu.Lock()
	items := map[string][]byte{}
	for name := range e.state.changed {
		item, err := e.state.item(name)
		if err != nil {
			e.mu.Unlock()
			return fmt.Errorf("save alarms: %w", err)
		}
		items[name] = item
	}
	leads := e.state.leads
	e.state.changed = map[string]bool{}
	e.mu.Unlock()
	if len(items) == 0 || !leads {
		return nil
	}
	if err := e.Store.Write(ctx, collection, items); err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		for name := range items {
			e.state.changed[name] = true
		}
		return fmt.Errorf("save alarms: %w", err)
	}
	return nil
}

// item is one of the store; nil: it is deleted.
func (s *state) item(name string) ([]byte, error) {
	section, own := store.Own(name)
	switch section {
	case alarmsKept:
		if a := s.alarms[own]; a != nil {
			return json.Marshal(a)
		}
	case silencesKept:
		if silence := s.silences[own]; silence != nil {
			return json.Marshal(silence)
		}
	case sentKept:
		if text, has := s.sent[own]; has {
			return text, nil
		}
	}
	return nil, nil
}

// Alarms returns the active alarms and those that have ended lately, the latest first.
func (e *Evaluator) Alarms() []Alarm {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	all := make([]Alarm, 0, len(e.state.alarms))
	for _, a := range e.state.alarms {
		one := *a
		one.SilencedBy = e.state.silencing(a.Labels, now)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Alarm) int { return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.ID, b.ID)) })
	return all
}

// Active returns the numbers of active alarms and of those that were not raised because there were too many.
func (e *Evaluator) Active() (alarms int, refused uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.state.byKey), e.state.refused
}

// Notified returns what package notify has kept of a group, and of which groups it has.
func (e *Evaluator) Notified() map[string]json.RawMessage {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.state.sent)
}

// KeepNotified keeps a record of a group, which Save writes; nil: none.
func (e *Evaluator) KeepNotified(group string, record json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.state.leads {
		return
	}
	if record == nil {
		delete(e.state.sent, group)
	} else {
		e.state.sent[group] = record
	}
	e.state.changed[store.Key(sentKept, group)] = true
}
