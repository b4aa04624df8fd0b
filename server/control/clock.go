package control

import (
	"fmt"
	"strings"
	"time"

	"pillion.dev/server/event"
	"pillion.dev/session"
)

const (
	// clockApart is how far the clock of a host may be from the server's, as its reports
	// arrive: two hosts within this of each other accept each other's tagged marks.
	clockApart = 10 * time.Second
	// clockAgrees ends that.
	clockAgrees = 5 * time.Second
)

// watchClock raises an event when the clock of a host differs from the server's, and when it
// agrees again. A report is some time on its way: a host seems to be behind by as much.
func (c *Control) watchClock(a *agent) {
	if a.state.Time.IsZero() {
		return
	}
	a.ahead = a.state.Time.Sub(a.lastReport)
	switch apart := a.ahead.Abs(); {
	case apart > clockApart && !a.clockApart && a.quietly("clock-apart", a.lastReport):
		a.clockApart = true
		c.event("clock-apart", event.Warning, a.Name, "", "%s", a.clockText())
	case apart < clockAgrees && a.clockApart:
		a.clockApart = false
		c.event("clock-agrees", event.Info, a.Name, "", "the clock of %s agrees with the server's clock again", a.Name)
	}
}

func (a *agent) clockText() string {
	direction := "ahead of"
	if a.ahead < 0 {
		direction = "behind"
	}
	return fmt.Sprintf(string(session.ClockApart)+"the clock of %s is %v %s the server's clock: %s", a.Name, a.ahead.Abs().Round(time.Second), direction, session.ClocksMatter)
}

func stepText(host string, step time.Duration) string {
	direction := "forward"
	if step < 0 {
		direction = "back"
	}
	return fmt.Sprintf("the clock of %s was set %s by %v: one-way delays from and to it change by as much", host, direction, step.Abs().Round(time.Microsecond))
}

// ClocksAhead is how far the clocks of connected hosts are ahead of the server's now, one for each
// boot other than the server's: an agent on the server's host has the same clock.
func (c *Control) ClocksAhead(boot string) (list []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	seen := map[string]bool{boot: true}
	for _, a := range c.agents {
		of := strings.ReplaceAll(a.state.Boot, "-", "")
		if a.connected && !a.Revoked && !a.state.Time.IsZero() && (of == "" || !seen[of]) {
			seen[of] = true
			list = append(list, a.state.Time.Add(now.Sub(a.lastReport)).Sub(now.Round(0)))
		}
	}
	return list
}

// Checks are what the server knows of an agent's fitness, for CheckAgent: whether its clock agrees with the
// server's, and which of its tasks fail or are limited.
func (c *Control) Checks(name string) (checks []session.Check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agents[name]
	if a == nil {
		return nil
	}
	add := func(name, level, found string) {
		checks = append(checks, session.Check{Name: name, Level: level, Found: found, Advice: session.Advice(found)})
	}
	switch {
	case a.state.Time.IsZero():
	case a.ahead.Abs() > clockApart:
		add("clock and server", "error", a.clockText())
	default:
		add("clock and server", "ok", fmt.Sprintf("they agree within %v", clockApart))
	}
	for _, t := range a.tasks(c.agents) {
		switch name := strings.TrimSpace(fmt.Sprintf("%s of %s %s", t.Role, t.Session, t.Device)); {
		case t.Error != "":
			add(name, "error", t.Error)
		case t.Limit != "":
			add(name, "warning", t.Limit)
		}
	}
	return checks
}
