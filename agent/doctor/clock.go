package doctor

import (
	"context"
	"time"

	"pillion.dev/agent/host"
	"pillion.dev/session"
)

// boundMax is the clock error bound above which one-way delays of most paths are
// meaningless.
const boundMax = 10 * time.Millisecond

const clockAdvice = "apt install chrony, then check with: chronyc tracking; one-way delay is only as accurate as the clocks of both hosts (loss and reordering do not depend on them up to 17 s)"

func checkClock(ctx context.Context) []session.Check {
	clock, err := host.ReadClock(ctx, nil)
	if err != nil {
		return []session.Check{unknown("clock", err)}
	}
	return []session.Check{judgeClock(clock)}
}

func judgeClock(c *host.Clock) session.Check {
	check := ok("clock", "synchronised by %s, maximum error %v", c.By, c.MaxError)
	if c.Reference != "" {
		check.Found += ", reference " + c.Reference
	}
	switch {
	case !c.Synchronised:
		check.Found = "not synchronised (according to " + c.By + "): its error is unbounded"
		check.Level, check.Advice = Warning, clockAdvice
	case c.MaxError > boundMax:
		check.Level, check.Advice = Warning, "use a nearer time server: chronyc sources lists the present ones; "+clockAdvice
	}
	return check
}
