package control

import (
	"maps"
	"time"
)

// Labels returns the labels of all agents, by name.
func (c *Control) Labels() map[string]map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	labels := make(map[string]map[string]string, len(c.agents))
	for name, a := range c.agents {
		labels[name] = a.labels()
	}
	return labels
}

// Unheard returns the agents that have tasks and have not reported for so long.
func (c *Control) Unheard(since time.Duration) (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	for name, a := range c.agents {
		last := a.lastReport
		if last.Before(c.began) {
			last = c.began
		}
		if !a.Revoked && now.Sub(last) >= since && a.sent.Leased() {
			names = append(names, name)
		}
	}
	return names
}

// cover notes which sessions' marks the agent reads, as it now reports. After a break in its reports, or of the
// task, the time before does not count.
func (a *agent) cover(broken bool, last time.Time) {
	if broken {
		clear(a.reading)
	}
	a.covered = last
	for _, t := range a.status {
		if _, has := a.reading[t.Session]; !has && t.Role == roleDestination {
			a.reading[t.Session] = a.lastReport
		}
	}
	maps.DeleteFunc(a.reading, func(session string, _ time.Time) bool { return !a.runs(session, roleDestination) })
}

// behindMost is the number of waiting batches from which rows of an agent count as late.
const behindMost = 32

// Covers returns the time for which it is known what of a session's marked packets an agent has received, by the
// server's clock: it has reported without a break that it reads the marks, and once more after that, so that its
// rows have had time to arrive. Zero times: there is none.
func (c *Control) Covers(session, name string) (from, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agents[name]
	if a == nil || a.Revoked || !a.connected || a.state.Spool.Batches >= behindMost || a.reading[session].IsZero() {
		return from, until
	}
	return a.reading[session], a.covered
}
