package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/session"
)

// assign computes one assignment for each agent with the tasks of all sessions. It
// changes nothing for agents that have it already.
func (c *Control) assign(now time.Time) {
	if now.Before(c.adoptUntil) {
		return
	}
	planned := c.hosts(false)
	known := c.hosts(true)
	addresses, _ := session.Distinct(known)
	held := c.held()
	tasks := map[string][]session.Assignment{}
	c.resolve(planned)
	unauthenticated := c.unauthenticated(known)
	for _, r := range c.inOrder() {
		r.refused, r.lacking = map[string]string{}, map[string]string{}
		for _, host := range known {
			if why := cmp.Or(addresses.Lack(r.Spec, host), session.Incapable(r.Spec, host)); why != "" {
				r.lacking[host.Name] = why
			}
		}
		r.points, r.waypoints = map[string][]string{}, nil
		spec := r.Spec
		if r.leavesAuthentication() {
			spec.Authentication = session.Authenticated
			if unauthenticated[spec.Name] != "" {
				spec.Authentication = session.Unauthenticated
			}
		}
		for agent, a := range session.Assign(spec, planned, addresses, r.pairs, held[r.Spec.Name], c.open(r)) {
			for _, task := range a.Points {
				if measures(known, agent, task.Point) {
					r.points[agent] = append(r.points[agent], task.Point)
				}
			}
			r.waypoint(agent, a, known)
			c.entrust(r, agent, a)
			tasks[agent] = append(tasks[agent], c.resolveConflict(r, agent, known, tasks[agent], a))
		}
	}
	for name, a := range c.agents {
		next := session.Union(tasks[name]...)
		a.restricted = session.Restrict(&next, name, known)
		c.limit(a, next, unauthenticated)
		text := content(next)
		stale := a.state.Revision > a.sent.Revision && !a.asking // of a server that lost its state
		if a.sent.Revision == 0 && a.state.Revision == 0 && len(tasks[name]) == 0 || text == a.text && !stale {
			continue
		}
		a.assign(next, text, now)
		c.changed.assignments = true
	}
}

// limit adds why sources of sessions that leave authentication to the server go without.
func (c *Control) limit(a *agent, tasks session.Assignment, unauthenticated map[string]string) {
	for _, task := range tasks.Sources {
		if why := unauthenticated[task.Session]; why != "" {
			a.restricted[task.Session] = strings.TrimSuffix(why+"; "+a.restricted[task.Session], "; ")
		}
	}
}

// waypoint notes an agent that is a waypoint of the session, and why it cannot be. It needs no address.
func (r *record) waypoint(agent string, a session.Assignment, hosts []session.Host) {
	if !slices.ContainsFunc(a.Destinations, func(t session.DestinationTask) bool { return len(t.Amends) > 0 }) {
		return
	}
	r.waypoints = append(r.waypoints, agent)
	delete(r.lacking, agent)
	if i := slices.IndexFunc(hosts, func(h session.Host) bool { return h.Name == agent }); i >= 0 && !hosts[i].Divides() {
		r.lacking[agent] = fmt.Sprintf("the version of the agent on %s does not support waypoints: update it", agent)
	}
}

// measures reports whether an agent can measure a point, by its capabilities.
func measures(hosts []session.Host, agent, point string) bool {
	i := slices.IndexFunc(hosts, func(h session.Host) bool { return h.Name == agent })
	return i < 0 || hosts[i].Measures(point)
}

// inOrder returns the sessions by the start of their runs: if two conflict, the older
// one takes precedence.
func (c *Control) inOrder() []*record {
	return slices.SortedFunc(maps.Values(c.sessions), func(a, b *record) int {
		if a.Run != nil && b.Run != nil {
			if n := a.Run.Start.Compare(b.Run.Start); n != 0 {
				return n
			}
		}
		return strings.Compare(a.Spec.Name, b.Spec.Name)
	})
}

// held returns the pairs, by session, for which marked packets may still arrive.
func (c *Control) held() map[string][]session.Pair {
	held := map[string][]session.Pair{}
	for name, a := range c.agents {
		for l := range a.marking {
			held[l.session] = append(held[l.session], session.Pair{Source: name, Destination: l.peer})
		}
	}
	return held
}

// open returns the pairs of a session whose source may mark: the destination has
// confirmed that it reads marks, or had when the source was started.
func (c *Control) open(r *record) []session.Pair {
	var open []session.Pair
	for _, pair := range r.pairs {
		source, destination := c.agents[pair.Source], c.agents[pair.Destination]
		if source.marksFor(link{r.Spec.Name, pair.Destination}) || destination.ready(r.Spec.Name, pair.Source) {
			open = append(open, pair)
		}
	}
	return open
}

// ready reports whether the agent has confirmed that it reads marks of a source.
func (a *agent) ready(session, source string) bool {
	return a.connected && a.confirmed && a.reads(session, source) && a.runs(session, roleDestination)
}

// resolveConflict removes the source of a session from its tasks if it conflicts with
// those of older sessions, which happens when agents join while sessions run.
func (c *Control) resolveConflict(r *record, agent string, hosts []session.Host, older []session.Assignment, tasks session.Assignment) session.Assignment {
	others := session.Union(older...).Sources
	policies := slices.ContainsFunc(hosts, func(h session.Host) bool { return h.Name == agent && h.HasPolicies() })
	for _, task := range tasks.Sources {
		if err := session.Fits(others, task, policies, hosts); err != nil {
			r.refused[agent] = err.Error()
			tasks.Sources, tasks.Traces = nil, nil
			break
		}
	}
	return tasks
}

// question is an assignment to be sent to one agent.
type question struct {
	agent string
	apply session.Assignment
}

// questions returns the assignments to be sent now, at most one at a time per agent.
func (c *Control) questions(now time.Time) []question {
	var questions []question
	for name, a := range c.agents {
		if a.sent.Revision == 0 || a.confirmed || a.asking || !a.connected || a.Revoked || now.Before(a.retryAt) {
			continue
		}
		a.asking = true
		questions = append(questions, question{name, a.sent})
	}
	return questions
}

// tell sends an agent its assignment and processes the reply.
func (c *Control) tell(ctx context.Context, q question) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	reply, err := c.ask(ctx, q.agent, session.Request{Apply: &q.apply})
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	a := c.agents[q.agent]
	if a == nil {
		return
	}
	a.asking = false
	switch {
	case err != nil && a.sent.Revision == q.apply.Revision:
		a.fault = clip(err.Error())
		a.wait = min(max(2*a.wait, retryMin), retryMax)
		a.retryAt = now.Add(a.wait)
		c.Log.Warn("agent did not accept its tasks", "agent", q.agent, "revision", q.apply.Revision, "error", err)
	case err == nil && a.sent.Revision == q.apply.Revision:
		c.confirm(a, reply.Tasks, now)
		if len(a.sent.Sources) > 0 {
			signal(c.pulseSoon)
		}
	}
	c.hurry()
}

// settle determines the state of each session.
func (c *Control) settle(now time.Time) {
	for _, r := range c.sessions {
		c.settleOne(r, now)
	}
}

func (c *Control) settleOne(r *record, now time.Time) {
	winding := c.winding(r.Spec.Name)
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
func (c *Control) winding(name string) bool {
	for _, a := range c.agents {
		for l := range a.marking {
			if l.session == name {
				return true
			}
		}
		for _, task := range a.sent.Destinations {
			if task.Session == name && !a.Revoked {
				return true
			}
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
		if t.Session == r.Spec.Name && t.Error != "" {
			faults = append(faults, fmt.Sprintf("%s on %s: %s", t.Role, name, t.Error))
		}
	}
	return faults
}
