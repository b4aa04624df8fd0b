package control

import (
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/session"
)

// States of a session.
const (
	Scheduled = "scheduled"
	Starting  = "starting"
	Running   = "running"
	Degraded  = "degraded" // not all of its tasks run
	Paused    = "paused"
	Stopping  = "stopping"
	Ended     = "ended"
)

// States of a run besides Running.
const (
	Planned = "planned"
	Done    = "done"
	Missed  = "missed"
	Failed  = "failed"
)

// Session is a specification and its current state.
type Session struct {
	Spec      session.Spec // complete
	State     string
	Reason    string // of the state, if any
	Created   time.Time
	CreatedBy string
	NextStart time.Time // zero: none
	Started   time.Time // of the current or last run
	Ends      time.Time // zero: when it is stopped
	Pairs     []session.Pair
	Tasks     []Task
	// Reasons are why it is not measured, or less than it asks for: what is in Reason and more, and the limits of tasks.
	Reasons  []session.Reason
	Revision uint64
}

// Active reports whether a session measures, or begins to.
func (s *Session) Active() bool {
	return slices.Contains([]string{Starting, Running, Degraded}, s.State)
}

// Resting is why a session that is not active measures nothing.
func (s *Session) Resting() session.Reason {
	name := s.Spec.Name
	one := session.Reason{Check: session.Check{Name: session.CheckSession, Level: session.LevelWarning, Advice: "pillion session show " + name}, Session: name}
	switch {
	case s.State == Paused:
		one.Found, one.Advice = "is paused: it marks no packets", "pillion session resume "+name
	case s.State == Scheduled && !s.NextStart.IsZero():
		one.Found = "measures from " + s.NextStart.UTC().Format(time.RFC3339)
	case s.State == Scheduled:
		one.Found = "has not started yet"
	case s.State == Ended && !s.Ends.IsZero():
		one.Found, one.Since, one.Advice = "measured until "+s.Ends.UTC().Format(time.RFC3339), s.Ends, "pillion session create starts another one"
	default:
		one.Found = "is " + s.State
	}
	one.Found = strings.TrimSuffix("session "+name+" "+one.Found+"; "+s.Reason, "; ")
	return one
}

// Run is one planned or past run of a session.
type Run struct {
	Session string    `json:"session"`
	Start   time.Time `json:"start"`
	End     time.Time `json:"end,omitzero"` // zero: when it is stopped
	State   string    `json:"state"`
	Reason  string    `json:"reason,omitempty"`
	// Due is when it should have started; its end is computed from it.
	Due time.Time `json:"due,omitzero"`
}

// saved is the part of a session that is stored on disk.
type saved struct {
	Spec     session.Spec `json:"spec"`
	Created  time.Time    `json:"created"`
	By       string       `json:"created_by"`
	Revision uint64       `json:"revision"`
	// Phase is Paused, Stopping or Ended, else empty; Reason says why.
	Phase  string `json:"phase,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Run is the current one, Last the start and end of the last one.
	Run  *Run `json:"run,omitempty"`
	Last *Run `json:"last,omitempty"`
	// Handled is the time up to which starts have been begun or counted as missed.
	Handled time.Time `json:"handled"`
	// Key is the secret of its agents.
	Key session.Key `json:"key,omitempty"`
}

func (s saved) clone() saved {
	if s.Run != nil {
		run := *s.Run
		s.Run = &run
	}
	return s // specifications are immutable
}

// record is the server's state of a session.
type record struct {
	saved
	// next is the next start, zero if there is none; known: it has been computed.
	next  time.Time
	known bool
	// changed is when it was last created, changed or resumed.
	changed time.Time
	// settled is when its state was last determined.
	settled time.Time
	pairs   []session.Pair
	// tasks are the tasks of its agents before conflicts with other sessions are resolved; members are its agents,
	// also agents that are to stop.
	tasks   map[string]session.Assignment
	members map[string]bool
	// plannedStart is the start of the run with which tasks were computed.
	plannedStart time.Time
	keys         map[session.Pair]session.Key // of pairs, derived from Key, which never changes
	// points are the points measured for it, by agent.
	points map[string][]string
	// waypoints are the agents that divide the delays of its pairs.
	waypoints []string
	// lacking is, by agent, why it has no address that can be measured, or cannot mark.
	lacking map[string]string
	// refused is, by agent, why its source conflicts with other sessions.
	refused map[string]string
	state   string
	reason  string
	// reasons are what is in reason, and more of it.
	reasons []session.Reason
}

// active reports whether packets are to be marked for it.
func (r *record) active() bool { return r.Run != nil && r.Phase == "" }

// reschedule makes nextStart compute the next start again.
func (r *record) reschedule() { r.known = false }

// nextStart returns the next start after those that were handled.
func (r *record) nextStart() time.Time {
	if !r.known {
		r.next, _, _ = session.Next(r.Spec, r.Handled)
		r.known = true
	}
	return r.next
}

// tasksOf returns the tasks of a session on all agents, by the names of these.
func (c *Control) tasksOf(name string) (tasks []Task) {
	for _, agent := range slices.Sorted(maps.Keys(c.agents)) {
		if a := c.agents[agent]; slices.ContainsFunc(a.status, func(t session.TaskState) bool { return t.Session == name }) {
			tasks = append(tasks, slices.DeleteFunc(a.tasks(c.agents), func(t Task) bool { return t.Session != name })...)
		}
	}
	return tasks
}

func (c *Control) view(r *record, tasks []Task) Session {
	v := Session{
		Spec: r.Spec, State: r.state, Reason: r.reason, Created: r.Created, CreatedBy: r.By,
		Pairs: slices.Clone(r.pairs), Revision: r.Revision,
	}
	if r.Phase == "" || r.Phase == Paused {
		v.NextStart = r.nextStart()
	}
	if run := r.Run; run != nil {
		v.Started, v.Ends = run.Start, run.End
	} else if run := r.Last; run != nil {
		v.Started, v.Ends = run.Start, run.End
	}
	v.Tasks = tasks
	if v.Active() {
		v.Reasons = slices.Concat(r.reasons, limitReasons(tasks))
	} else {
		v.Reasons = []session.Reason{v.Resting()}
	}
	v.Reasons = v.Reasons[:min(len(v.Reasons), listedMax)]
	return v
}

// Sessions returns all sessions, newest first.
func (c *Control) Sessions() []Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	tasks := map[string][]Task{}
	for _, name := range slices.Sorted(maps.Keys(c.agents)) {
		for _, t := range c.agents[name].tasks(c.agents) {
			tasks[t.Session] = append(tasks[t.Session], t)
		}
	}
	sessions := make([]Session, 0, len(c.sessions))
	for _, r := range c.sessions {
		sessions = append(sessions, c.view(r, tasks[r.Spec.Name]))
	}
	slices.SortFunc(sessions, func(a, b Session) int {
		if n := b.Created.Compare(a.Created); n != 0 {
			return n
		}
		return strings.Compare(a.Spec.Name, b.Spec.Name)
	})
	return sessions
}

// Session returns one session.
func (c *Control) Session(name string) (Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.sessions[name]; r != nil {
		return c.view(r, c.tasksOf(name)), nil
	}
	return Session{}, notFound("find", name)
}

// upcomingMax limits the planned runs of one session that Runs returns.
const upcomingMax = 1000

// Runs returns the past, current and planned runs that overlap a range of time, by
// start; of one session, or of all if the name is empty. Zero times mean now and one
// week later.
func (c *Control) Runs(from, to time.Time, name string) []Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if from.IsZero() {
		from = now
	}
	if to.IsZero() {
		to = from.AddDate(0, 0, 7)
	}
	var runs []Run
	add := func(run Run) {
		if run.Start.Before(to) && (run.End.IsZero() || !run.End.Before(from)) && (name == "" || run.Session == name) {
			runs = append(runs, run)
		}
	}
	for _, run := range c.runs {
		add(run.Run)
	}
	for _, r := range c.sessions {
		if r.Run != nil {
			add(*r.Run)
		}
		if r.Phase != "" && r.Phase != Paused || name != "" && r.Spec.Name != name {
			continue
		}
		first := from
		if r.Handled.After(first) {
			first = r.Handled.Add(1)
		}
		for _, w := range session.Upcoming(r.Spec, first, to, upcomingMax) {
			add(Run{Session: r.Spec.Name, Start: w.Start, End: w.End, State: Planned, Due: w.Start})
		}
	}
	slices.SortStableFunc(runs, func(a, b Run) int { return a.Start.Compare(b.Start) })
	return runs
}
