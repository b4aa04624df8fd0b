package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pillion.dev/session"
)

// Plan describes what a specification would do.
type Plan struct {
	Spec     session.Spec // complete
	Problems []session.Problem
	Warnings []string
	Pairs    []session.Pair
	Steps    []session.Step
	Starts   []time.Time // at most ten
	Costs    []string
}

const startsMax = 10

// Plan returns what a specification would do, without doing it.
func (c *Control) Plan(spec session.Spec) Plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	p := c.check(spec, now)
	if len(p.Problems) > 0 {
		return p
	}
	if startsNow(p.Spec, now) {
		p.Starts = append(p.Starts, now)
		if err := c.conflict(p.Spec); err != nil {
			p.Problems = append(p.Problems, session.Problem{Field: "sources", Message: err.Error()})
		}
	}
	for _, w := range session.Upcoming(p.Spec, now, now.AddDate(10, 0, 0), startsMax-len(p.Starts)) {
		p.Starts = append(p.Starts, w.Start)
	}
	return p
}

// startsNow reports whether a new session starts immediately.
func startsNow(spec session.Spec, now time.Time) bool {
	return spec.Cron == "" && !spec.Start.After(now)
}

// check validates a specification against the current agents and sessions.
func (c *Control) check(spec session.Spec, now time.Time) Plan {
	p := Plan{Spec: spec.Complete(), Problems: spec.Validate()}
	if !spec.Start.IsZero() && startsNow(spec, now) && spec.Duration > 0 && !session.End(spec, spec.Start).After(now) {
		p.Problems = append(p.Problems, session.Problem{
			Field: "start", Message: fmt.Sprintf("a run starting at %s would already have ended", spec.Start.Format(time.RFC3339))})
	}
	if len(p.Problems) > 0 {
		return p // the pairs of an invalid specification are meaningless
	}
	hosts := c.hosts(false)
	p.Pairs, p.Warnings, p.Problems = session.Resolve(p.Spec, hosts)
	warnings, faults := session.ResolvePoints(p.Spec, hosts)
	p.Warnings, p.Problems = append(p.Warnings, warnings...), append(p.Problems, faults...)
	plan := session.NewPlan(p.Spec, p.Pairs, hosts)
	p.Warnings = append(append(p.Warnings, plan.Warnings...), session.ClockNotes(p.Spec, now)...)
	p.Steps = plan.Steps
	p.Costs = session.Costs(p.Spec, p.Pairs)
	addresses, _ := session.Distinct(hosts)
	for _, other := range c.sessions {
		if other.Spec.Name == p.Spec.Name || other.active() || other.Phase == Ended || other.Phase == Stopping {
			continue
		}
		if err := session.Conflict([]session.Plan{planOf(other.Spec, hosts, addresses)}, plan); err != nil {
			p.Warnings = append(p.Warnings, fmt.Sprintf("cannot run at the same time: %v", err))
		}
	}
	slices.Sort(p.Warnings)
	p.Warnings = slices.Compact(p.Warnings)
	return p
}

const sessionsMax = 1000

// Create starts a session or schedules it. The warnings are for the caller.
func (c *Control) Create(ctx context.Context, spec session.Spec, by string) (Session, []string, error) {
	fail := func(err error) (Session, []string, error) {
		return Session{}, nil, fmt.Errorf("create session %.70q: %w", spec.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	c.mu.Lock()
	now := c.Now()
	plan := c.check(spec, now)
	err := c.admit(plan, now)
	if err != nil {
		c.mu.Unlock()
		return fail(err)
	}
	r := &record{saved: saved{Spec: plan.Spec, Created: now, By: by, Revision: 1, Handled: now, Key: session.NewKey()}, changed: now}
	c.sessions[spec.Name] = r
	c.stale.sessions = true
	if startsNow(plan.Spec, now) {
		c.beginNow(r, now)
		r.pairs = plan.Pairs
	}
	c.settleOne(r, now)
	view := c.view(r, c.tasksOf(r.Spec.Name))
	c.changed.session(r.Spec.Name)
	c.mu.Unlock()
	if err := c.commit(func() { delete(c.sessions, spec.Name) }); err != nil {
		return fail(err)
	}
	return view, plan.Warnings, nil
}

// admit returns an error if a new session is not possible.
func (c *Control) admit(plan Plan, now time.Time) error {
	if len(plan.Problems) > 0 {
		return &InvalidError{plan.Problems}
	}
	if r := c.sessions[plan.Spec.Name]; r != nil {
		if r.Phase == Ended {
			return fmt.Errorf("%w; it has ended: delete it first", ErrExists)
		}
		return ErrExists
	}
	if len(c.sessions) >= sessionsMax {
		return fmt.Errorf("%w: limit of %d sessions reached", ErrState, sessionsMax)
	}
	if startsNow(plan.Spec, now) {
		return c.conflict(plan.Spec)
	}
	return nil
}

// beginNow begins the only run of a session without a schedule.
func (c *Control) beginNow(r *record, now time.Time) {
	from := now
	if !r.Spec.Start.IsZero() {
		from = r.Spec.Start
	}
	c.begin(r, Run{Session: r.Spec.Name, Start: now, End: session.End(r.Spec, from), State: Running, Due: from}, now)
}

// Change replaces the specification of a session that has not ended. A current run
// continues with the new one: tasks that both have in common are not interrupted.
func (c *Control) Change(ctx context.Context, spec session.Spec, by string) (Session, []string, error) {
	if err := ctx.Err(); err != nil {
		return Session{}, nil, fmt.Errorf("change session %.70q: %w", spec.Name, err)
	}
	var warnings []string
	view, err := c.modify("change", spec.Name, func(r *record, now time.Time) error {
		plan := c.check(spec, now)
		if r.Run != nil && plan.Spec.Cron == "" && plan.Spec.Start.After(now) {
			plan.Problems = append(plan.Problems, session.Problem{Field: "start", Message: "the session is already running; stop it first, or omit the start"})
		}
		if len(plan.Problems) > 0 {
			return &InvalidError{plan.Problems}
		}
		starts := r.Phase == "" && r.Run == nil && startsNow(plan.Spec, now)
		if r.active() || starts {
			if err := c.conflict(plan.Spec); err != nil {
				return err
			}
		}
		warnings = plan.Warnings
		r.Spec, r.Handled, r.changed = plan.Spec, now, now
		r.Revision++
		c.stale.sessions = true
		r.reschedule()
		if r.Run != nil {
			run := *r.Run
			run.End = session.End(r.Spec, run.Due)
			r.Run = &run
		} else if starts {
			c.beginNow(r, now)
		} else {
			r.Last = nil // without a schedule, a resumed session begins immediately
		}
		c.Log.Info("session changed", "session", spec.Name, "by", by, "revision", r.Revision)
		return nil
	})
	return view, warnings, err
}

// Pause stops marking and keeps the session and its schedule: starts during the pause are
// missed, and a run that has not ended by then continues after Resume.
func (c *Control) Pause(name string) (Session, error) {
	return c.modify("pause", name, func(r *record, _ time.Time) error {
		c.phase(r, Paused, "")
		return nil
	})
}

// Resume ends a pause.
func (c *Control) Resume(name string) (Session, error) {
	return c.modify("resume", name, func(r *record, now time.Time) error {
		if r.Phase != Paused {
			return fmt.Errorf("%w: the session is not paused", ErrState)
		}
		if r.Run != nil {
			if err := c.conflict(r.Spec); err != nil {
				return err
			}
		}
		c.phase(r, "", "")
		r.changed = now
		if r.Run == nil && r.Last == nil && startsNow(r.Spec, now) {
			c.beginNow(r, now)
		}
		return nil
	})
}

// Stop ends a session permanently: sources first.
func (c *Control) Stop(name string) (Session, error) {
	return c.modify("stop", name, func(r *record, now time.Time) error {
		if r.Run != nil {
			c.finish(r, Done, "stopped by operator", now)
		}
		c.phase(r, Stopping, "stopped by operator")
		return nil
	})
}

// modify changes a session that has not ended.
func (c *Control) modify(what, name string, change func(*record, time.Time) error) (Session, error) {
	c.mu.Lock()
	now := c.Now()
	r := c.sessions[name]
	var err error
	switch {
	case r == nil:
		err = ErrNotFound
	case r.Phase == Ended || r.Phase == Stopping:
		err = fmt.Errorf("%w: the session has ended", ErrState)
	}
	if err != nil {
		c.mu.Unlock()
		return Session{}, failure(what, name, err)
	}
	before, runs := *r, slices.Clone(c.runs)
	if err = change(r, now); err != nil {
		*r = before
		c.mu.Unlock()
		return Session{}, failure(what, name, err)
	}
	c.settleOne(r, now)
	view := c.view(r, c.tasksOf(r.Spec.Name))
	c.changed.session(r.Spec.Name)
	c.mu.Unlock()
	if err := c.commit(func() { *r, c.runs = before, runs }); err != nil {
		return Session{}, failure(what, name, err)
	}
	return view, nil
}

// DeleteSession deletes a session that has ended. Its runs stay in the history.
func (c *Control) DeleteSession(name string) error {
	c.mu.Lock()
	r := c.sessions[name]
	var err error
	switch {
	case r == nil:
		err = ErrNotFound
	case r.Phase != Ended:
		err = fmt.Errorf("%w while it is %s: stop it first", ErrState, r.state)
	default:
		delete(c.sessions, name)
		c.changed.session(name)
		c.stale.sessions = true
	}
	c.mu.Unlock()
	if err == nil {
		err = c.commit(func() { c.sessions[name] = r })
	}
	if err != nil {
		return failure("delete", name, err)
	}
	return nil
}

func failure(what, name string, err error) error {
	return fmt.Errorf("%s session %.70q: %w", what, name, err)
}

func notFound(what, name string) error { return failure(what, name, ErrNotFound) }
