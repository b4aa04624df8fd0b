package control

import (
	"context"
	"time"

	"pillion.dev/session"
)

// TakesReports reports whether an agent is connected, so that it can count what sources report as sent.
func (c *Control) TakesReports(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agents[name]
	return a != nil && a.connected && !a.Revoked && a.Site == ""
}

// ClockAhead is how far the clock of an agent is ahead of the server's, as its last report
// arrived.
func (c *Control) ClockAhead(name string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.agents[name]; a != nil {
		return a.ahead
	}
	return 0
}

// Report passes on to an agent what sources have sent to it.
func (c *Control) Report(ctx context.Context, name string, reports []session.SentReport) error {
	_, err := c.ask(ctx, name, session.Request{Sent: reports})
	return err
}
