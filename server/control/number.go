package control

import (
	"time"

	"pillion.dev/wire"
)

// numberKept is how long the number of a deleted agent goes to no other: destinations that have not
// heard of it would take the marks of one for those of the other.
const numberKept = 24 * time.Hour

// addAgent enters an agent and gives it a number. The caller holds the lock.
func (c *Control) addAgent(e enrolment) *agent {
	a := newAgent(e)
	c.agents[e.Name] = a
	c.number(a)
	return a
}

// number gives the smallest unused number to an agent that has none.
func (c *Control) number(a *agent) {
	if a.Number != 0 {
		return
	}
	used := map[uint32]bool{}
	for _, other := range c.agents {
		used[other.Number] = true
	}
	now := c.Now()
	for number, since := range c.retired {
		if used[number] = now.Sub(since) < numberKept; !used[number] {
			delete(c.retired, number)
		}
	}
	for number := uint32(1); number <= wire.IngressMax; number++ {
		if !used[number] {
			a.Number, c.changed.agents = number, true
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
}
