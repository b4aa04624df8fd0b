package control

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"pillion.dev/session"
)

// assign computes the assignments of the agents that are concerned by what has changed since the
// last round, from the tasks of all sessions. It changes nothing for agents that have theirs
// already. It returns the sessions whose state may differ.
func (c *Control) assign(now time.Time) map[*record]bool {
	affected := map[*record]bool{}
	if now.Before(c.adoptUntil) {
		for _, r := range c.sessions {
			affected[r] = true
		}
		return affected
	}
	changed := c.stale
	c.stale = stale{agents: map[string]bool{}} // what this round changes concerns the next one
	agents := changed.agents
	planned := c.replan(&changed)
	held := c.held(planned, &changed)
	for _, r := range planned {
		affected[r] = true
		c.planTasks(r, held[r.Spec.Name], agents)
	}
	if changed.everyone {
		for name := range c.agents {
			agents[name] = true
		}
	}
	own := map[string][]*record{}
	for _, r := range c.plan.order {
		for name := range smaller(r.tasks, agents) {
			if _, has := r.tasks[name]; has && agents[name] {
				own[name] = append(own[name], r)
			}
		}
		for name := range r.refused {
			if agents[name] {
				delete(r.refused, name)
				affected[r] = true
			}
		}
	}
	for name := range agents {
		if a := c.agents[name]; a != nil {
			c.assignAgent(a, own[name], affected, now)
		}
	}
	c.plan.done = true
	return affected
}

// assignAgent assigns to an agent its tasks of these sessions, in the order of precedence.
func (c *Control) assignAgent(a *agent, sessions []*record, affected map[*record]bool, now time.Time) {
	var tasks []session.Assignment
	for _, r := range sessions {
		tasks = append(tasks, c.resolveConflict(r, a.Name, tasks, r.tasks[a.Name]))
		if r.refused[a.Name] != "" {
			affected[r] = true
		}
	}
	next := session.Union(tasks...)
	a.restricted = session.Restrict(&next, a.Name, c.plan.byName.Of(a.Name, next))
	sum := digest(next)
	stale := a.state.Revision > a.sent.Revision && !a.asking // of a server that lost its state
	if a.sent.Revision == 0 && a.state.Revision == 0 && len(tasks) == 0 || sum == a.digest && !stale {
		return
	}
	a.assign(next, sum, now)
	c.touch(a)
	c.changed.assignment(a.Name)
}

// planTasks computes the tasks of a session, and adds to agents those whose tasks differ from the ones
// of the last round.
func (c *Control) planTasks(r *record, held []session.Pair, agents map[string]bool) {
	before, moved := r.tasks, r.Run != nil && !r.Run.Start.Equal(r.plannedStart)
	if r.Run != nil {
		r.plannedStart = r.Run.Start
	}
	r.tasks, r.points, r.waypoints = map[string]session.Assignment{}, map[string][]string{}, nil
	r.lacking, r.members = map[string]string{}, map[string]bool{}
	if r.refused == nil {
		r.refused = map[string]string{}
	}
	for _, pair := range slices.Concat(r.pairs, held) {
		c.include(r, pair.Source)
		c.include(r, pair.Destination)
	}
	for agent, a := range session.Assign(r.Spec, c.plan.hosts, c.plan.addresses, r.pairs, held, c.open(r)) {
		c.include(r, agent)
		for _, task := range a.Points {
			if host, known := c.plan.byName[agent]; !known || host.Measures(task.Point) {
				r.points[agent] = append(r.points[agent], task.Point)
			}
		}
		r.waypoint(agent, a)
		c.entrust(r, agent, a)
		r.tasks[agent] = a
		if moved || !reflect.DeepEqual(before[agent], a) {
			agents[agent] = true
		}
	}
	for agent := range before {
		if _, has := r.tasks[agent]; !has {
			agents[agent] = true
		}
	}
}

// include makes an agent a member of the session, and notes why it cannot be measured.
func (c *Control) include(r *record, agent string) {
	if r.members[agent] {
		return
	}
	r.members[agent] = true
	if host, known := c.plan.byName[agent]; known {
		if why := cmp.Or(c.plan.addresses.Lack(r.Spec, host), session.Incapable(r.Spec, host)); why != "" {
			r.lacking[agent] = why
		}
	}
}

// waypoint notes an agent that is a waypoint of the session. It needs no address.
func (r *record) waypoint(agent string, a session.Assignment) {
	if slices.ContainsFunc(a.Destinations, func(t session.DestinationTask) bool { return len(t.Amends) > 0 }) {
		r.waypoints = append(r.waypoints, agent)
		delete(r.lacking, agent)
	}
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

// held returns the pairs of these sessions, by session, for which marked packets may still arrive.
func (c *Control) held(sessions []*record, changed *stale) map[string][]session.Pair {
	held := map[string][]session.Pair{}
	add := func(name string) {
		if a := c.agents[name]; a != nil {
			for l := range a.marking {
				held[l.session] = append(held[l.session], session.Pair{Source: name, Destination: l.peer})
			}
		}
	}
	if changed.sessions {
		for name := range c.agents {
			add(name)
		}
		return held
	}
	names := maps.Clone(changed.agents)
	for _, r := range sessions {
		maps.Copy(names, r.members)
	}
	for name := range names {
		add(name)
	}
	return held
}

// open returns the pairs of a session whose source may mark: the destination has
// confirmed that it reads marks, or had when the source was started.
func (c *Control) open(r *record) []session.Pair {
	var open []session.Pair
	for _, pair := range r.pairs {
		source, destination := c.agents[pair.Source], c.agents[pair.Destination]
		if source == nil || destination == nil {
			continue // deleted: this round or the next one resolves the pairs again
		}
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

// resolveConflict removes the source of a session from its tasks if it conflicts with sources of older sessions,
// which happens when agents join while sessions run.
func (c *Control) resolveConflict(r *record, agent string, older []session.Assignment, tasks session.Assignment) session.Assignment {
	if len(older) == 0 || len(tasks.Sources) == 0 {
		return tasks
	}
	others := session.Union(older...).Sources
	for _, task := range tasks.Sources {
		if err := session.Fits(others, task); err != nil {
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
	lease *session.Pulse // nil: it has no tasks that depend on heartbeats
}

// questions returns the assignments to be sent now, at most one at a time per agent.
func (c *Control) questions(now time.Time) []question {
	var questions []question
	for name, a := range c.agents {
		if a.sent.Revision == 0 || a.confirmed || a.asking || !a.connected || a.Revoked || now.Before(a.retryAt) {
			continue
		}
		a.asking = true
		q := question{agent: name, apply: a.sent}
		if a.sent.Leased() {
			lease := c.pulseOf(a, now)
			q.lease = &lease
		}
		questions = append(questions, q)
	}
	return questions
}

// errNotLeading is an assignment that another server of the fleet sends.
var errNotLeading = errors.New("another server leads the fleet")

// tell sends an agent its assignment and processes the reply.
func (c *Control) tell(ctx context.Context, q question) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	reply, err := session.Reply{}, errNotLeading
	if c.Leads() {
		reply, err = c.ask(ctx, q.agent, session.Request{Apply: &q.apply, Pulse: q.lease})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	a := c.agents[q.agent]
	if a == nil {
		return
	}
	a.asking = false
	a.renewed(q.apply, now) // the lease began when the agent received it, not when it was sent
	c.touch(a)
	switch {
	case err != nil && a.sent.Revision == q.apply.Revision:
		a.fault = session.Clip(err.Error())
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
