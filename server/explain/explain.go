// Package explain decides why the packets from one agent to another are measured or not.
//
// It judges what the caller has gathered: agents, their clocks, the session with its tasks, and counts of packets. It asks nobody,
// and sees neither routes nor what only a host can check. The page and the command line print its findings.
package explain

import (
	"slices"
	"strings"
	"time"

	"pillion.dev/server/control"
	"pillion.dev/server/skew"
	"pillion.dev/session"
)

// Evidence is what is known of one direction.
type Evidence struct {
	// Source and Destination have names; an agent without a state is unknown.
	Source, Destination control.Agent
	// Version of the server.
	Version string
	// Clock is the estimate of the offset between both clocks; nil: there is none.
	Clock *skew.Pair
	// Session measures the direction, did or will; nil: none.
	Session *control.Session
	// Plan is of a session with the defaults; nil: unknown, or not needed.
	Plan *control.Plan
	// Limited: tasks and reasons of sessions are concealed.
	Limited bool
	Counts
	Now time.Time
}

// report collects findings about one end, one direction or both ends.
type report struct {
	where, agent, session string
	found                 []session.Reason
}

func (r *report) add(name, level, found, advice string) {
	r.since(time.Time{}, name, level, found, advice)
}

func (r *report) since(since time.Time, name, level, found, advice string) {
	r.found = append(r.found, session.Reason{
		Check: session.Check{Name: name, Level: level, Found: found, Advice: advice},
		Where: r.where, Since: since, Agent: r.agent, Session: r.session,
	})
}

// Reasons judges both ends, their clocks and the direction, in this order.
func (e *Evidence) Reasons() []session.Reason {
	var all []session.Reason
	for _, a := range []control.Agent{e.Source, e.Destination} {
		r := &report{where: a.Name, agent: a.Name}
		e.judgeAgent(r, a)
		all = append(all, r.found...)
	}
	ends := []control.Agent{e.Source, e.Destination} // by name: it is the same for both directions
	slices.SortFunc(ends, func(a, b control.Agent) int { return strings.Compare(a.Name, b.Name) })
	r := &report{where: ends[0].Name + " and " + ends[1].Name}
	e.judgeClocks(r, ends)
	all = append(all, r.found...)
	r = &report{where: e.Source.Name + " > " + e.Destination.Name}
	if e.Session != nil {
		r.session = e.Session.Spec.Name
	}
	e.judgeSession(r)
	if e.Measured() {
		e.judgeTasks(r)
		e.judgeMarks(r)
	}
	e.judgeRoom(r)
	return append(all, r.found...)
}

// Measured reports whether the session runs.
func (e *Evidence) Measured() bool { return e.Session != nil && e.Session.Active() }

// Measures reports whether a session measures a direction, or would if it ran.
func Measures(s *control.Session, source, destination string, hosts []session.Host) bool {
	pairs := s.Pairs
	if len(pairs) == 0 {
		pairs, _, _ = session.Resolve(s.Spec, hosts)
	}
	return slices.Contains(pairs, session.Pair{Source: source, Destination: destination})
}
