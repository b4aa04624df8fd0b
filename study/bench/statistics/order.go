package main

import (
	"math"
	"math/rand/v2"

	"pillion.dev/study/experiment"
)

// Experiments about the order have this many blocks of three runs with a noise of 1 %.
const (
	orderBlocks = 12
	orderArms   = 3
	orderNoise  = 0.01
)

// orders are experiments without any effect on a machine that is disturbed.
func orders() []simulation {
	// at is the time of a turn: the number of runs before it.
	inBlocks := func(t experiment.Turn) int { return t.Block*orderArms + t.Position }
	fixed := func(t experiment.Turn) int { return t.Block*orderArms + t.Cell.Index }
	oneAfterAnother := func(t experiment.Turn) int { return t.Cell.Index*orderBlocks + t.Block }
	var list []simulation
	for _, order := range []struct {
		name   string
		at     func(experiment.Turn) int
		barred bool
	}{
		{"one after another", oneAfterAnother, false}, {"fixed rotation", fixed, false}, {"random blocks", inBlocks, true},
	} {
		for _, disturbance := range []struct {
			name string
			of   func(run int) float64
		}{
			{"undisturbed", func(int) float64 { return 0 }},
			// 5 % from the first run to the last one.
			{"drift", func(run int) float64 { return -0.05 * float64(run) / (orderArms*orderBlocks - 1) }},
			// A wave of ±3 % as long as a block.
			{"periodic", func(run int) float64 { return 0.03 * math.Sin(2*math.Pi*float64(run)/orderArms) }},
		} {
			name := order.name + ", " + disturbance.name
			list = append(list, simulation{name, 20000, order.barred, func(times int, draw func() float64, random *rand.Rand) ([]figure, error) {
				s, err := parse(", delay, loss", false, "{blocks: 12}")
				if err != nil {
					return nil, err
				}
				var found tally
				for range times {
					s.Seed = random.Uint64()
					var rows []experiment.Row
					for block := range orderBlocks {
						for _, turn := range s.Order(block) {
							log := disturbance.of(order.at(turn)) + orderNoise*draw()
							rows = append(rows, experiment.Row{Block: block, Position: turn.Position, Cell: turn.Cell.Index, Attempt: 1,
								Valid: true, Kept: true, Measures: map[string]float64{"rate": math.Exp(log)}})
						}
					}
					low, high := s.Effects(rows, orderBlocks, "mark")[0].Interval(experiment.Confidence)
					found.add(count(low > 1 || high < 1))
				}
				return []figure{found.figure(falsePositives, name)}, nil
			}})
		}
	}
	return list
}
