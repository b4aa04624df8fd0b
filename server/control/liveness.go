package control

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pillion.dev/internal/quantity"
	"pillion.dev/server/event"
	"pillion.dev/session"
)

// watch detects agents that no longer report.
func (c *Control) watch(now time.Time) {
	for _, a := range c.agents {
		if a.connected && (a.Revoked || now.Sub(a.lastReport) >= awayAfter) {
			a.connected = false
			c.touchConnection(a)
			c.event("agent-lost", event.Warning, a.Name, "", "lost contact with %s; last heard from at %s", a.Name, a.lastReport.UTC().Format(time.RFC3339))
		}
	}
}

// stopped notes that an agent ends in an orderly way: nothing waits until it counts as lost.
func (c *Control) stopped(a *agent) {
	clear(a.reading)
	if !a.connected {
		return
	}
	a.connected = false
	c.touchConnection(a)
	c.event("agent-lost", event.Warning, a.Name, "", "%s stops", a.Name)
	c.hurry()
}

// followFor is how much longer than the leading server the others take an agent for connected: if they come
// to lead before, they report its loss, which the previous leader may not have done.
const followFor = 10 * time.Second

// Lapse notices, on a server that does not lead, which agents no longer report.
func (c *Control) Lapse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	for _, a := range c.agents {
		if a.connected && now.Sub(a.lastReport) >= awayAfter+followFor {
			a.connected = false
			c.touchConnection(a)
		}
	}
}

// observe raises events for problems that appeared between two states, once each.
func (c *Control) observe(a *agent, before session.State, first bool) {
	now, was := a.state.Clock, before.Clock
	c.watchClock(a)
	if !first && before.Instance == a.state.Instance && now.Steps > was.Steps && a.quietly("clock-stepped", a.lastReport) {
		c.event("clock-stepped", event.Warning, a.Name, "", "%s", stepText(a.Name, time.Duration(now.StepNs)))
	}
	if !now.Synchronised && (first || was.Synchronised) {
		c.event("clock-unsynchronised", event.Warning, a.Name, "",
			"the clock of %s is unsynchronised: its one-way delays are unreliable", a.Name)
	}
	if now.Synchronised && !was.Synchronised && !first {
		c.event("clock-synchronised", event.Info, a.Name, "", "the clock of %s is synchronised again", a.Name)
	}
	if why := a.state.Spool.DiskError; why != "" && (first || before.Spool.DiskError == "") && a.quietly("spool-disk", a.lastReport) {
		c.event("spool-disk", event.Error, a.Name, "",
			"the spool of %s cannot write to disk: batches stay in memory and are lost if the agent stops: %s", a.Name, why)
	}
	if thin := a.state.Thin > 1; thin && !a.thinning && a.quietly("thinning", a.lastReport) {
		a.thinning = true
		c.event("thinning", event.Warning, a.Name, "",
			"the queue of %s is long: applications that report to it are asked to send fewer samples", a.Name)
	} else if a.thinning && !thin {
		a.thinning = false
		c.event("thinning-ended", event.Info, a.Name, "", "applications that report to %s are asked to send all samples again", a.Name)
	}
	held, reported := a.state.Spool, &a.Lost
	if reported.Instance != a.state.Instance {
		*reported = lost{Instance: a.state.Instance} // the counter was reset
	}
	if held.Damaged > reported.Damaged && a.quietly("spool-damaged", a.lastReport) {
		c.event("spool-damaged", event.Error, a.Name, "", "files in the spool of %s are damaged or missing: %s are lost",
			a.Name, quantity.Count(held.Damaged-reported.Damaged, "batch"))
		reported.Damaged = held.Damaged
		c.changed.agent(a.Name)
	}
	if held.Rejected > reported.Rejected && a.quietly("batch-rejected", a.lastReport) {
		c.event("batch-rejected", event.Error, a.Name, "", "the server permanently rejected %s of %s: %d since the agent started",
			quantity.Count(held.Rejected-reported.Rejected, "batch"), a.Name, held.Rejected)
		reported.Rejected = held.Rejected
		c.changed.agent(a.Name)
	}
	if dropped := held.DroppedBatches - held.Damaged; dropped > reported.Dropped && a.quietly("spool-dropped", a.lastReport) {
		c.event("spool-dropped", event.Error, a.Name, "", "the full spool of %s dropped %s; since the agent started %s with %s were lost",
			a.Name, quantity.Count(dropped-reported.Dropped, "batch"), quantity.Count(held.DroppedBatches, "batch"), quantity.Count(held.DroppedRows, "row"))
		reported.Dropped = dropped
		c.changed.agent(a.Name)
	}
}

// status updates the states of an agent's tasks and raises an event for each that begins
// to fail, and for each source on which path validation begins or ceases to fail.
func (c *Control) status(a *agent, tasks []session.TaskState) {
	type task struct{ session, role, device string }
	before := map[task]session.TaskState{}
	for _, t := range a.status {
		before[task{t.Session, t.Role, t.Device}] = t
	}
	a.status = tasks
	for _, t := range tasks {
		was := before[task{t.Session, t.Role, t.Device}]
		if c.sessions[t.Session] == nil {
			continue
		}
		if t.Error != "" && was.Error == "" {
			c.event("task-failed", event.Error, a.Name, t.Session, "%s failed on %s: %s", t.Role, a.Name, t.Error)
		}
		c.addressProofs(a, t, was)
		c.flowMismatches(a, t, was)
		c.limits(a, t, was)
		switch now := t.PathsNotPassed(); {
		case now > 0 && was.PathsNotPassed() == 0:
			c.event("path-validation-failed", event.Warning, a.Name, t.Session,
				"path validation fails on %s, device %s: %s", a.Name, t.Device, t.Limit)
		case now == 0 && was.PathsNotPassed() > 0 && t.Error == "":
			c.event("path-validation-passed", event.Info, a.Name, t.Session,
				"path validation no longer fails on %s, device %s", a.Name, t.Device)
		}
	}
}

// limits raises events when what limits a task begins or ceases to.
func (c *Control) limits(a *agent, t, was session.TaskState) {
	switch {
	case begins(session.Hidden, t, was):
		c.event("program-hidden", event.Warning, a.Name, t.Session, "the %s on %s, device %s, is %s", t.Role, a.Name, t.Device, session.Hidden.In(t.Limit))
	case begins(session.Hidden, was, t) && t.Error == "":
		c.event("program-reached", event.Info, a.Name, t.Session, "packets reach the %s on %s, device %s, again", t.Role, a.Name, t.Device)
	}
	switch {
	case t.Unanswered != "" && was.Unanswered == "":
		c.event("probes-unanswered", event.Warning, a.Name, t.Session, "on %s, device %s, %s", a.Name, t.Device, t.Unanswered)
	case t.Unanswered == "" && was.Unanswered != "" && t.Error == "":
		c.event("probes-answered", event.Info, a.Name, t.Session, "on %s, device %s, path probes are answered again", a.Name, t.Device)
	}
	switch {
	case begins(session.NoRoom, t, was) && a.quietly("no-room", a.lastReport):
		c.event("no-room", event.Warning, a.Name, t.Session, "the %s on %s, device %s: %s", t.Role, a.Name, t.Device, session.NoRoom.In(t.Limit))
	case begins(session.NoRoom, was, t) && t.Error == "" && a.quietly("room-again", a.lastReport):
		c.event("room-again", event.Info, a.Name, t.Session, "packets of the %s on %s, device %s, have room for marks again", t.Role, a.Name, t.Device)
	}
}

// begins reports whether the limit of a task has a cause that it did not have before.
func begins(c session.Cause, t, was session.TaskState) bool {
	return c.In(t.Limit) != "" && c.In(was.Limit) == ""
}

// flowMismatches raises an event for each pair of which the ends begin to differ in what they
// call a flow.
func (c *Control) flowMismatches(a *agent, t, was session.TaskState) {
	for _, source := range slices.Sorted(maps.Keys(t.OtherFlows)) {
		if was.OtherFlows[source] == t.OtherFlows[source] || c.agents[source] == nil {
			continue
		}
		c.Events.Event(event.Event{
			Time: c.Now(), Kind: "flow-mismatch", Level: event.Warning, Agent: source, Peer: a.Name, Session: t.Session,
			Message: fmt.Sprintf("some marks of %s are not measured at %s, device %s: they number flows by %s, and session %s tells them apart by other fields; use the same flow in it and in whatever else marks packets on %s",
				source, a.Name, t.Device, t.OtherFlows[source], t.Session, source),
		})
	}
}

// addressProofs raises an event when a source begins or ceases to have addresses of peers that
// are not proven.
func (c *Control) addressProofs(a *agent, t, was session.TaskState) {
	now, before := t.Counters[session.AddressesUnproven], was.Counters[session.AddressesUnproven]
	switch {
	case now > 0 && before == 0:
		c.event("address-unproven", event.Warning, a.Name, t.Session,
			"%s, device %s, marks no packets to %s: %s", a.Name, t.Device, quantity.Count(now, "unproven address"), a.explained(t, c.agents))
	case now == 0 && before > 0 && t.Counters[session.AddressesPending] == 0 && t.Error == "":
		c.event("address-proven", event.Info, a.Name, t.Session, "all addresses to which %s, device %s, may mark are proven", a.Name, t.Device)
	}
}

// confirm records that the agent has applied its assignment: links that it no longer
// contains have stopped.
func (c *Control) confirm(a *agent, tasks []session.TaskState, now time.Time) {
	a.confirmed, a.fault, a.wait = true, "", 0
	c.status(a, tasks)
	for l, m := range a.marking {
		if m.until.IsZero() && !a.marksFor(l) {
			m.until = now.Add(c.Grace)
			a.marking[l] = m
		}
	}
}

// release removes links whose last marked packets have arrived: some time after the
// source confirmed that it stopped, or after its lease expired if it cannot.
func (c *Control) release(now time.Time) {
	for _, a := range c.agents {
		if !a.releasing && !a.Revoked {
			continue
		}
		a.releasing = false
		for l, m := range a.marking {
			if a.marksFor(l) && !a.Revoked {
				continue
			}
			end := m.renewed.Add(m.lease + c.Grace)
			if !m.until.IsZero() && m.until.Before(end) {
				end = m.until
			}
			if now.Before(end) {
				a.releasing = true
				continue
			}
			delete(a.marking, l)
			c.touch(a)
		}
	}
}
