package doctor

import (
	"context"
	"time"

	"pillion.dev/agent/host"
	"pillion.dev/session"
)

// boundMost is the bound of the clock's error above which most paths' delays say
// little.
const boundMost = 10 * time.Millisecond

const clockAdvice = "apt install chrony, then: chronyc tracking; a one-way delay is only as right as the clocks of both hosts (loss and reordering do not depend on them)"

func checkClock(ctx context.Context) []session.Check {
	clock, err := host.ReadClock(ctx, nil)
	if err != nil {
		return []session.Check{unknown("clock", err)}
	}
	return []session.Check{judgeClock(clock)}
}

func judgeClock(c *host.Clock) session.Check {
	check := ok("clock", "synchronised by %s, within %v", c.By, c.MaxError)
	if c.Reference != "" {
		check.Found += ", following " + c.Reference
	}
	switch {
	case !c.Synchronised:
		check.Found = "not synchronised (asked " + c.By + "): its error has no bound"
		check.Level, check.Advice = Warning, clockAdvice
	case c.MaxError > boundMost:
		check.Level, check.Advice = Warning, "chronyc sources shows what it follows, one nearer is better; "+clockAdvice
	}
	return check
}
