package control

import "time"

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
