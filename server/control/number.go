package control

import (
	"time"

	"pillion.dev/wire"
)

// numberKept is how long the number of a deleted agent goes to no other agent: destinations that do not yet know of
// the change would take marks of the new agent for marks of the deleted one.
const numberKept = 24 * time.Hour

// addAgent enters an agent and gives it a number. The caller holds the lock.
func (c *Control) addAgent(e enrolment) *agent {
	a := newAgent(e)
	c.agents[e.Name] = a
	c.number(a)
	c.stale.sessions = true
	return a
}

// removeAgent reverts that.
func (c *Control) removeAgent(name string) {
	if a := c.agents[name]; a != nil {
		delete(c.agents, name)
		delete(c.numbers, a.Number)
		c.numbered = min(c.numbered, max(a.Number, 1)-1)
	}
}

// number gives the smallest unused number to an agent that has none.
func (c *Control) number(a *agent) {
	if a.Number != 0 {
		c.numbers[a.Number] = true
		return
	}
	now := c.Now()
	for number, since := range c.retired {
		if now.Sub(since) >= numberKept {
			delete(c.retired, number)
			c.changed.retired(number)
			c.numbered = min(c.numbered, number-1)
		}
	}
	for number := c.numbered + 1; number <= wire.IngressMax; number++ {
		if _, retired := c.retired[number]; !retired && !c.numbers[number] {
			a.Number, c.numbered, c.numbers[number] = number, number, true
			c.changed.agent(a.Name)
			return
		}
	}
}

// retire keeps the number of an agent that is deleted.
func (c *Control) retire(a *agent) {
	if c.retired == nil {
		c.retired = map[uint32]time.Time{}
	}
	c.retired[a.Number] = c.Now()
	delete(c.numbers, a.Number)
	c.changed.retired(a.Number)
}
