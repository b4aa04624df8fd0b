package web

import (
	"math"
	"time"

	"pillion.dev/server/control"
)

// clockFigures are the bounds on the clock errors of connected agents; of those beyond the limit, the largest.
func clockFigures(agents []control.Agent, limit int) (figures []Figure) {
	bounds := map[string]float64{}
	for _, agent := range agents {
		if agent.State != control.Connected {
			continue
		}
		name, bound := agent.Name, time.Duration(agent.Clock.MaxErrorNs).Seconds()
		if len(bounds) >= limit {
			name = "other"
		}
		if !agent.Clock.Synchronised {
			bound = math.Inf(1)
		}
		bounds[name] = max(bounds[name], bound)
	}
	for name, bound := range bounds {
		figures = append(figures, Figure{"pillion_agent_clock_error_seconds",
			"Bound on the error of the clock of a connected agent, as its kernel states it; infinite while the clock is unsynchronised.",
			map[string]string{"agent": name}, bound})
	}
	return figures
}
