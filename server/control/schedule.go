package control

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pillion.dev/server/event"
	"pillion.dev/session"
)

// lateAfter is the delay above which a start is reported as late.
const lateAfter = 5 * time.Second

// schedule begins and ends runs.
func (c *Control) schedule(now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(c.sessions)) {
		r := c.sessions[name]
		if r.Phase == Ended || r.Phase == Stopping {
			continue
		}
		if r.Run != nil && !r.Run.End.IsZero() && !now.Before(r.Run.End) {
			c.finish(r, Done, "", r.Run.End)
		}
		if next := r.nextStart(); !next.IsZero() && !now.Before(next) {
			c.due(r, now)
		}
		if r.Phase == "" && r.Run == nil && r.nextStart().IsZero() {
			c.phase(r, Stopping, r.Reason)
		}
	}
}

// due handles the starts up to now that were not handled yet.
func (c *Control) due(r *record, now time.Time) {
	missed, late := session.Missed(r.Spec, r.Handled, now)
	r.Handled = now
	r.reschedule()
	name := r.Spec.Name
	c.changed.session(name)
	if r.Phase == Paused && late != nil {
		missed, late = append(missed, *late), nil
	}
	why := "the server was away"
	if r.Phase == Paused {
		why = "the session is paused"
	}
	for _, w := range missed {
		c.remember(Run{Session: name, Start: w.Start, End: w.End, State: Missed, Reason: why, Due: w.Start})
	}
	if n := len(missed); n > 0 {
		c.event("start-missed", event.Warning, "", name, "%d starts of %s were missed, the last at %s: %s",
			n, name, missed[n-1].Start.UTC().Format(time.RFC3339), why)
	}
	if late == nil {
		r.Reason = "its start was missed: " + why
		return
	}
	start, reason := late.Start, ""
	if by := now.Sub(late.Start); by > lateAfter {
		start, reason = now, fmt.Sprintf("it started %v late: %s", by.Round(time.Second), why)
		c.event("start-missed", event.Warning, "", name, "the start of %s at %s was missed; %s",
			name, late.Start.UTC().Format(time.RFC3339), reason)
	}
	c.begin(r, Run{Session: name, Start: start, End: late.End, State: Running, Reason: reason, Due: late.Start}, now)
}

// begin begins a run, unless it conflicts with current ones.
func (c *Control) begin(r *record, run Run, now time.Time) {
	if r.Run != nil {
		c.finish(r, Done, "the next one began", now)
	}
	c.changed.session(r.Spec.Name)
	c.stale.sessions = true
	if err := c.conflict(r.Spec); err != nil {
		run.State, run.Reason, run.End = Failed, err.Error(), now
		r.Last, r.Reason = &run, run.Reason
		c.remember(run)
		c.event("session-failed", event.Error, "", r.Spec.Name, "%s could not start: %v", r.Spec.Name, err)
		return
	}
	r.Run, r.changed, r.Reason = &run, now, ""
	c.event("session-started", event.Info, "", r.Spec.Name, "%s has started", r.Spec.Name)
}

// finish ends the current run; its sources stop first.
func (c *Control) finish(r *record, state, reason string, end time.Time) {
	run := *r.Run
	run.State, run.End = state, end
	if reason != "" {
		run.Reason = reason
	}
	r.Run, r.Last = nil, &run
	c.changed.session(r.Spec.Name)
	c.stale.sessions = true
	c.remember(run)
	c.event("session-ended", event.Info, "", r.Spec.Name, "a run of %s has ended", r.Spec.Name)
}

func (c *Control) phase(r *record, phase, reason string) {
	r.Phase, r.Reason = phase, reason
	c.changed.session(r.Spec.Name)
	c.stale.sessions = true
}

// conflict returns why a session cannot run at the same time as the current ones.
func (c *Control) conflict(spec session.Spec) error {
	hosts := c.hosts(false)
	addresses, _ := session.Distinct(hosts)
	var running []session.Plan
	for _, name := range slices.Sorted(maps.Keys(c.sessions)) {
		if r := c.sessions[name]; r.active() && name != spec.Name {
			running = append(running, planOf(r.Spec, hosts, addresses))
		}
	}
	return session.Conflict(running, planOf(spec, hosts, addresses))
}

// planOf is a plan with nothing but the assignments, which are what can conflict.
func planOf(spec session.Spec, hosts []session.Host, addresses session.Addresses) session.Plan {
	pairs, _, _ := session.Resolve(spec, hosts)
	return session.Plan{Session: spec.Name, Assignments: session.Assign(spec, hosts, addresses, pairs, nil, pairs)}
}
