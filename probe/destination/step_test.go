package destination

import (
	"testing"
	"time"

	"pillion.dev/internal/clock"
)

// TestClockIsStepped: what was measured by two clocks is left out and counted, no packet is lost by it,
// no change of delay is that of the clock, and no flow is idle because of it.
func TestClockIsStepped(t *testing.T) {
	t.Cleanup(func() { clock.Inject(clock.Injection{}) })
	for name, step := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			clock.Inject(clock.Injection{})
			d, sent := openTC(t, Settings{Records: true}), 0
			for _, row := range []struct {
				when               string
				packets            int
				step               time.Duration
				delays, variations uint64
			}{
				{"before", 10, 0, 10, 9},
				{"across the step", 10, step, 0, 0},
				{"first after it", 3, 0, 3, 0},
				{"later", 3, 0, 3, 3},
			} {
				deliveredFrom(t, d, sent, make([]time.Duration, row.packets))
				sent += row.packets
				if row.step != 0 {
					clock.Inject(clock.Injection{Step: row.step, StepAt: time.Unix(1, 0)})
				}
				rows := d.mustRead(t, ByFlow)
				if len(rows) != 1 {
					t.Fatalf("%s: %d rows", row.when, len(rows))
				}
				got := rows[0]
				if got.Packets != uint64(row.packets) || got.Expected != uint64(row.packets) || got.Lost+got.Late+got.Duplicated != 0 {
					t.Errorf("%s: %+v", row.when, got.Counts)
				}
				if got.Delay.Count != row.delays || got.Variation.Count != row.variations {
					t.Errorf("%s: %d delays and %d changes, want %d and %d", row.when, got.Delay.Count, got.Variation.Count, row.delays, row.variations)
				}
				if span := time.Duration(max(got.Delay.Max-got.Delay.Min, got.Variation.Max-got.Variation.Min)); span > step.Abs()/2 {
					t.Errorf("%s: delays and their changes span %v", row.when, span)
				}
			}
			if tally := d.mustTally(t); tally.DelaysLeftOut != 10 || tally.FlowsExpired != 0 || tally.Flows != 1 || tally.Lost != 0 {
				t.Errorf("tally %+v", tally)
			}
		})
	}
}
