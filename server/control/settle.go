package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/session"
)

// settle determines the state of the affected sessions, and of sessions whose state depends on the time.
func (c *Control) settle(affected map[*record]bool, now time.Time) {
	for _, r := range c.sessions {
		if affected[r] || !r.settled.After(r.changed.Add(startTime)) || !c.duplicated.IsZero() && !r.settled.After(c.duplicated.Add(quiet)) {
			c.settleOne(r, now)
		}
	}
}

func (c *Control) settleOne(r *record, now time.Time) {
	r.settled = now
	winding := c.winding(r)
	if r.Phase == Stopping && !winding {
		c.phase(r, Ended, r.Reason)
	}
	r.reason, r.reasons = r.Reason, nil
	switch {
	case r.Phase != "":
		r.state = r.Phase
	case r.Run == nil && winding:
		r.state = Stopping
	case r.Run == nil:
		r.state = Scheduled
	default:
		c.settleRunning(r, now)
	}
}

// winding reports whether some agent still has, or may have, a task of a session.
func (c *Control) winding(r *record) bool {
	if c.plan.done { // then only its members have
		for name := range r.members {
			if a := c.agents[name]; a != nil && a.winding(r.Spec.Name) {
				return true
			}
		}
		return false
	}
	for _, a := range c.agents {
		if a.winding(r.Spec.Name) {
			return true
		}
	}
	return false
}

func (a *agent) winding(session string) bool {
	for l := range a.marking {
		if l.session == session {
			return true
		}
	}
	for _, task := range a.sent.Destinations {
		if task.Session == session && !a.Revoked {
			return true
		}
	}
	return false
}

const (
	// reasonsMax limits the reasons in the text of a session's state, listedMax those that are listed.
	reasonsMax = 3
	listedMax  = 100
)

func (c *Control) settleRunning(r *record, now time.Time) {
	faults, waits := c.faults(r, now)
	r.state, r.reason = Running, r.Run.Reason
	fresh := now.Sub(r.changed) < startTime
	switch {
	case len(faults) == 0 && len(waits) == 0:
		return
	case len(faults) == 0 && fresh:
		r.state, r.reason = Starting, ""
		r.reasons = waits[:min(len(waits), listedMax)]
		return
	}
	r.state = Degraded
	all := append(faults, waits...)
	var texts []string
	for _, one := range all[:min(len(all), reasonsMax)] {
		texts = append(texts, one.Found)
	}
	if more := len(all) - reasonsMax; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	r.reason, r.reasons = strings.Join(texts, "; "), all[:min(len(all), listedMax)]
}

// Advice about reasons.
const (
	// AdviceStart is about an agent that is away.
	AdviceStart   = "check that pillion-agent is running there: systemctl status pillion-agent; permit TCP to ports 8470 and 8471 of the server"
	adviceLog     = "journalctl -u pillion-agent on that host says more"
	adviceWait    = "wait some seconds; " + adviceLog
	adviceMembers = "pillion agents lists agents and labels; change the sources or destinations of the session"
)

// reasonOf is a reason about an agent's part in a session: a fault of it, or what it waits for.
func reasonOf(r *record, agent, name, level, advice, format string, values ...any) session.Reason {
	return session.Reason{
		Check: session.Check{Name: name, Level: level, Found: fmt.Sprintf(format, values...), Advice: advice},
		Where: agent, Agent: agent, Session: r.Spec.Name,
	}
}

// taskReason is why a task fails or does less than its session asks for.
func taskReason(t session.TaskState, agent, level, why string) session.Reason {
	return session.Reason{
		Check: session.Check{Name: t.Role, Level: level, Found: fmt.Sprintf("%s on %s: %s", t.Role, agent, why), Advice: cmp.Or(session.Advice(why), adviceLog)},
		Where: agent, Agent: agent, Session: t.Session,
	}
}

// faults returns the problems of a running session, and what it waits for.
func (c *Control) faults(r *record, now time.Time) (faults, waits []session.Reason) {
	wait := func(agent, name, advice, format string, values ...any) {
		waits = append(waits, reasonOf(r, agent, name, session.LevelWarning, advice, format, values...))
	}
	if len(r.pairs) == 0 {
		wait("", "pairs", adviceMembers, "no two agents match")
		return nil, waits
	}
	name := r.Spec.Name
	agents := map[string]bool{}
	for _, pair := range r.pairs {
		agents[pair.Source], agents[pair.Destination] = true, true
		source, destination := c.agents[pair.Source], c.agents[pair.Destination]
		if source == nil || destination == nil || !source.connected || !destination.connected || r.refused[pair.Source] != "" ||
			r.lacking[pair.Source] != "" || r.lacking[pair.Destination] != "" {
			continue // reported once for the agent
		}
		switch {
		case !destination.runs(name, roleDestination) || !destination.reads(name, pair.Source):
			wait(pair.Destination, roleDestination, adviceWait, "%s is waiting: the destination on %s is not running", pair.Source, pair.Destination)
		case !source.marksFor(link{name, pair.Destination}) || !source.runs(name, roleSource):
			wait(pair.Source, roleSource, adviceWait, "the source on %s is not running", pair.Source)
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(agents)) {
		faults = append(faults, c.agentFaults(r, agent, now)...)
	}
	for _, agent := range slices.Sorted(maps.Keys(r.points)) {
		if !agents[agent] {
			faults = append(faults, c.agentFaults(r, agent, now)...)
		}
		for _, point := range r.points[agent] {
			if a := c.agents[agent]; a != nil && a.connected && !a.runs(name, point) {
				wait(agent, point, adviceWait, "the point %s on %s is not running", point, agent)
			}
		}
	}
	for _, agent := range slices.Sorted(slices.Values(r.waypoints)) {
		faults = append(faults, c.agentFaults(r, agent, now)...)
		if a := c.agents[agent]; a != nil && a.connected && r.lacking[agent] == "" && !a.runs(name, roleDestination) {
			wait(agent, "waypoint", adviceWait, "the waypoint on %s is not running: delays are not divided there", agent)
		}
	}
	slices.SortFunc(waits, func(a, b session.Reason) int { return strings.Compare(a.Found, b.Found) })
	return faults, slices.Compact(waits)
}

func (c *Control) agentFaults(r *record, name string, now time.Time) (faults []session.Reason) {
	a := c.agents[name]
	add := func(since time.Time, check, advice, format string, values ...any) {
		one := reasonOf(r, name, check, session.LevelError, advice, format, values...)
		one.Since = since
		faults = append(faults, one)
	}
	switch {
	case a == nil:
		add(time.Time{}, "agent", adviceMembers, "%s has left", name)
		return faults
	case !a.connected && now.Sub(r.changed) >= aliveFor:
		add(a.lastReport, "agent", AdviceStart, "%s is away", name)
	case r.lacking[name] != "":
		add(time.Time{}, "address", "give that host an address of its own, or update its agent: pillion agents show "+name, "%s", r.lacking[name])
	case !a.duplicated.IsZero() && now.Sub(a.duplicated) < quiet:
		add(a.duplicated, "agent", "give each agent a name and a data directory of its own", "two processes use the name %s", name)
	}
	if r.refused[name] != "" {
		add(time.Time{}, "conflict", "change one of the sessions; docs/reference/session.md lists what cannot be combined", "%s: %s", name, r.refused[name])
	}
	if a.fault != "" {
		add(time.Time{}, "tasks", adviceLog, "%s did not accept its tasks: %s", name, a.fault)
	}
	for _, t := range a.status {
		if why := cmp.Or(t.Error, t.Unanswered); t.Session == r.Spec.Name && why != "" {
			faults = append(faults, taskReason(t, name, session.LevelError, why))
		}
	}
	return faults
}

// limitReasons are what limits tasks of a session that run.
func limitReasons(tasks []Task) (reasons []session.Reason) {
	for _, t := range tasks {
		if t.Limit != "" && t.Error == "" {
			reasons = append(reasons, taskReason(t.TaskState, t.Agent, session.LevelWarning, t.Limit))
		}
	}
	return reasons
}
