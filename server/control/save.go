package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"pillion.dev/server/store"
	"pillion.dev/session"
)

// Collections and their sections.
const (
	agentsKept      = "agents"
	retiredKept     = "retired" // numbers of agents that were deleted lately, and when
	sessionsKept    = "sessions"
	runsKept        = "runs"
	assignmentsKept = "assignments"
)

// Collections of the state.
var Collections = []string{agentsKept, sessionsKept, assignmentsKept}

// items are the keys of a collection that differ from the store.
type items map[string]bool

// changes are the items that differ from the store, by collection.
type changes map[string]items

func (c changes) add(collection, section, own string) {
	if c[collection] == nil {
		c[collection] = items{}
	}
	c[collection][store.Key(section, own)] = true
}

func (c changes) agent(name string)      { c.add(agentsKept, agentsKept, name) }
func (c changes) session(name string)    { c.add(sessionsKept, sessionsKept, name) }
func (c changes) run(number uint64)      { c.add(sessionsKept, runsKept, store.Position(number)) }
func (c changes) assignment(name string) { c.add(assignmentsKept, assignmentsKept, name) }
func (c changes) retired(number uint32) {
	c.add(agentsKept, retiredKept, strconv.FormatUint(uint64(number), 10))
}

// pastRun is a run in the history; numbers ascend.
type pastRun struct {
	Run
	number uint64
}

// state is what the store has.
type state struct {
	agents      map[string]enrolment
	retired     map[uint32]time.Time
	sessions    []saved
	runs        []pastRun
	assignments map[string]session.Assignment
}

// read reads the state from the store.
func (c *Control) read(ctx context.Context) (*state, error) {
	s := &state{agents: map[string]enrolment{}, retired: map[uint32]time.Time{}, assignments: map[string]session.Assignment{}}
	for _, collection := range Collections {
		kept, err := c.Store.Load(ctx, collection)
		if err != nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(kept)) {
			if err := s.add(key, kept[key]); err != nil {
				return nil, fmt.Errorf("load %s: %s: %w", collection, key, err)
			}
		}
	}
	return s, nil
}

func (s *state) add(key string, item []byte) (err error) {
	section, own := store.Own(key)
	switch section {
	case agentsKept:
		var e enrolment
		err = json.Unmarshal(item, &e)
		s.agents[own] = e
	case retiredKept:
		var since time.Time
		number, failed := strconv.ParseUint(own, 10, 32)
		err = errors.Join(failed, json.Unmarshal(item, &since))
		s.retired[uint32(number)] = since
	case sessionsKept:
		var one saved
		err = json.Unmarshal(item, &one)
		s.sessions = append(s.sessions, one)
	case runsKept:
		var run pastRun
		run.number, err = strconv.ParseUint(own, 10, 64)
		err = errors.Join(err, json.Unmarshal(item, &run.Run))
		s.runs = append(s.runs, run)
	case assignmentsKept:
		var a session.Assignment
		err = json.Unmarshal(item, &a)
		s.assignments[own] = a
	}
	return err
}

// Reload replaces the state by the state in the store, which other servers may have written. What agents have
// reported to this server stays known.
func (c *Control) Reload(ctx context.Context) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	s, err := c.read(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounded, c.unsaved = c.Now(), nil
	return c.restore(s)
}

// Follow applies what the leading server writes of agents, until the context ends: so that this
// one can tell who is admitted.
func (c *Control) Follow(ctx context.Context) error {
	return c.Store.Follow(ctx, agentsKept, &c.saving, func(key string, item []byte) {
		if section, name := store.Own(key); section == agentsKept {
			if err := c.followed(name, item); err != nil {
				c.Log.Error("cannot follow the leading server", "agent", name, "error", err)
			}
		}
	})
}

// followed replaces an agent by its state in the store; nil: it is deleted.
func (c *Control) followed(name string, item []byte) error {
	var e enrolment
	if item != nil {
		if err := json.Unmarshal(item, &e); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stale.sessions, c.stale.addresses = true, true
	a := c.agents[name]
	switch {
	case item == nil:
		delete(c.agents, name)
	case a == nil:
		c.agents[name] = newAgent(e)
		c.numbers[e.Number] = e.Number != 0
	default:
		a.enrolment, a.addresses = e, global(e.Interfaces)
	}
	return nil
}

// restore makes this the state. What is known of agents besides stays.
func (c *Control) restore(s *state) error {
	now, before := c.Now(), c.agents
	c.agents, c.sessions, c.numbers = map[string]*agent{}, map[string]*record{}, map[uint32]bool{}
	c.retired, c.runs, c.numbered, c.adoptUntil = s.retired, s.runs, 0, time.Time{}
	c.changed = changes{}
	c.plan, c.stale = plan{}, stale{sessions: true, everyone: true, addresses: true, agents: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(s.agents)) {
		e := s.agents[name]
		if err := c.reconcile(&e); err != nil {
			return err
		}
		c.agents[name] = newAgent(e)
		if old := before[name]; old != nil {
			c.agents[name].inherit(old)
		}
		if e.Number != 0 {
			c.numbers[e.Number] = true
		}
	}
	for _, one := range s.sessions {
		c.sessions[one.Spec.Name] = &record{saved: one, changed: now}
	}
	for name, sent := range s.assignments {
		if a := c.agents[name]; a != nil {
			a.adopt(sent, now)
			if sent.Leased() {
				c.adoptUntil = now.Add(adoptTime)
			}
		} else {
			c.changed.assignment(name)
		}
	}
	return nil
}

// inherit takes what an agent has reported, and what was concluded from it.
func (a *agent) inherit(old *agent) {
	a.state, a.lastReport, a.connected, a.status = old.state, old.lastReport, old.connected, old.status
	a.former, a.duplicated, a.ahead, a.clockApart = old.former, old.duplicated, old.ahead, old.clockApart
	a.lastEvent, a.thinning = old.lastEvent, old.thinning
}

// take returns the items to be written, by collection; nil: it is deleted. The caller holds
// the lock.
func (c *Control) take(changed changes) map[string]map[string]any {
	taken := map[string]map[string]any{}
	runs := map[uint64]Run{}
	if len(changed[sessionsKept]) > 0 {
		for _, run := range c.runs {
			runs[run.number] = run.Run
		}
	}
	for collection, keys := range changed {
		taken[collection] = map[string]any{}
		for key := range keys {
			taken[collection][key] = c.item(key, runs)
		}
	}
	return taken
}

// item returns a copy of what belongs to a key, or nil.
func (c *Control) item(key string, runs map[uint64]Run) any {
	section, own := store.Own(key)
	switch section {
	case agentsKept:
		if a := c.agents[own]; a != nil {
			return a.enrolment.clone()
		}
	case retiredKept:
		number, _ := strconv.ParseUint(own, 10, 32)
		if since, found := c.retired[uint32(number)]; found {
			return since
		}
	case sessionsKept:
		if r := c.sessions[own]; r != nil {
			return r.saved.clone()
		}
	case runsKept:
		number, _ := strconv.ParseUint(own, 10, 64)
		if run, found := runs[number]; found {
			return run
		}
	case assignmentsKept:
		if a := c.agents[own]; a != nil && a.sent.Revision != 0 {
			return a.sent
		}
	}
	return nil
}

// Flush writes what has changed since the last round.
func (c *Control) Flush() error { return c.write() }

// save writes what changed in a round. Failed writes are retried in the next one; a
// server that cannot write continues to measure.
func (c *Control) save() {
	if err := c.write(); err != nil {
		c.Log.Error("cannot save the server's state", "error", err)
	}
}

// saveTime limits a write.
const saveTime = 10 * time.Second

// write writes the changed items; when it returns without an error, all previous
// changes are in the store.
func (c *Control) write() error {
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	changed := c.changed
	c.changed = changes{}
	taken := c.take(changed)
	c.mu.Unlock()
	var failed error
	for _, collection := range slices.Sorted(maps.Keys(taken)) {
		err := c.writeItems(collection, taken[collection])
		c.mu.Lock()
		if err != nil {
			failed = errors.Join(failed, err)
			for key := range changed[collection] {
				section, own := store.Own(key)
				c.changed.add(collection, section, own)
			}
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	c.unsaved = failed
	c.mu.Unlock()
	return failed
}

func (c *Control) writeItems(collection string, values map[string]any) error {
	items := make(map[string][]byte, len(values))
	for key, value := range values {
		items[key] = nil
		if value == nil {
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("save %s: %s: %w", collection, key, err)
		}
		items[key] = text
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	return c.Store.Write(ctx, collection, items)
}

// commit writes what the caller just changed under the lock; undo reverts it if that
// fails.
func (c *Control) commit(undo func()) error {
	if err := c.write(); err != nil {
		c.mu.Lock()
		undo()
		c.stale.sessions, c.stale.everyone, c.stale.addresses = true, true, true
		c.mu.Unlock()
		return err
	}
	c.hurry()
	return nil
}

const runsMax = 1000 // runs in the history

// remember adds a run that has ended to the history.
func (c *Control) remember(run Run) {
	number := uint64(0)
	if n := len(c.runs); n > 0 {
		number = c.runs[n-1].number + 1
	}
	c.runs = append(c.runs, pastRun{run, number})
	c.changed.run(number)
	if over := len(c.runs) - runsMax; over > 0 {
		for _, old := range c.runs[:over] {
			c.changed.run(old.number)
		}
		c.runs = slices.Delete(c.runs, 0, over)
	}
}
