package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// settle determines the state of the sessions for which it may differ, and of those that depend on
// the time.
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
	r.reason = r.Reason
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

// reasonsMax limits the reasons in the state of a session.
const reasonsMax = 3

func (c *Control) settleRunning(r *record, now time.Time) {
	faults, waits := c.faults(r, now)
	r.state, r.reason = Running, r.Run.Reason
	fresh := now.Sub(r.changed) < startTime
	switch {
	case len(faults) == 0 && len(waits) == 0:
		return
	case len(faults) == 0 && fresh:
		r.state, r.reason = Starting, ""
		return
	}
	r.state = Degraded
	all := append(faults, waits...)
	if len(all) > reasonsMax {
		all = append(all[:reasonsMax], fmt.Sprintf("and %d more", len(all)-reasonsMax))
	}
	r.reason = strings.Join(all, "; ")
}

// faults returns the problems of a running session, and what it waits for.
func (c *Control) faults(r *record, now time.Time) (faults, waits []string) {
	if len(r.pairs) == 0 {
		return nil, []string{"no two agents match"}
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
			waits = append(waits, fmt.Sprintf("%s is waiting: the destination on %s is not running", pair.Source, pair.Destination))
		case !source.marksFor(link{name, pair.Destination}) || !source.runs(name, roleSource):
			waits = append(waits, fmt.Sprintf("the source on %s is not running", pair.Source))
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
				waits = append(waits, fmt.Sprintf("the point %s on %s is not running", point, agent))
			}
		}
	}
	for _, agent := range slices.Sorted(slices.Values(r.waypoints)) {
		faults = append(faults, c.agentFaults(r, agent, now)...)
		if a := c.agents[agent]; a != nil && a.connected && r.lacking[agent] == "" && !a.runs(name, roleDestination) {
			waits = append(waits, fmt.Sprintf("the waypoint on %s is not running: delays are not divided there", agent))
		}
	}
	slices.Sort(waits)
	return faults, slices.Compact(waits)
}

func (c *Control) agentFaults(r *record, name string, now time.Time) (faults []string) {
	a := c.agents[name]
	switch {
	case a == nil:
		return []string{name + " has left"}
	case !a.connected && now.Sub(r.changed) >= aliveFor:
		faults = append(faults, name+" is away")
	case r.lacking[name] != "":
		faults = append(faults, r.lacking[name])
	case !a.duplicated.IsZero() && now.Sub(a.duplicated) < quiet:
		faults = append(faults, "two processes use the name "+name)
	}
	if r.refused[name] != "" {
		faults = append(faults, name+": "+r.refused[name])
	}
	if a.fault != "" {
		faults = append(faults, fmt.Sprintf("%s did not accept its tasks: %s", name, a.fault))
	}
	for _, t := range a.status {
		if why := cmp.Or(t.Error, t.Unanswered); t.Session == r.Spec.Name && why != "" {
			faults = append(faults, fmt.Sprintf("%s on %s: %s", t.Role, name, why))
		}
	}
	return faults
}
