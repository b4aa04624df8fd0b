package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"pillion.dev/study/experiment"
)

// simulation is one kind of experiment. barred: its false positives have a bar.
type simulation struct {
	name        string
	experiments int
	barred      bool
	figures     func(experiments int, draw func() float64, random *rand.Rand) ([]figure, error)
}

// effect is the truth of every treatment, a logarithm.
const effect = -0.04

// unit is the standard deviation of a block's logarithmic ratio in the simulations.
const unit = 0.05

// rules are experiments that end by the stop rule, by the half-width that is wanted, in
// units.
func rules() []simulation {
	var list []simulation
	for _, c := range []struct {
		name                    string
		treatments, most, times int
		halfWidth               float64
	}{
		{"stop rule, one effect, narrow", 1, 200, 20000, 0.3},
		{"stop rule, one effect", 1, 200, 20000, 0.4},
		{"stop rule, one effect, wide", 1, 200, 20000, 0.6},
		{"stop rule, one effect, at most 20 blocks", 1, 20, 20000, 0.3},
		{"stop rule, 4 effects", 4, 200, 10000, 0.4},
	} {
		list = append(list, simulation{c.name, c.times, true, func(times int, draw func() float64, _ *rand.Rand) ([]figure, error) {
			levels := ""
			for i := range c.treatments {
				levels += fmt.Sprintf(", m%d", i)
			}
			s, err := parse(levels, true, fmt.Sprintf("{effect: mark, half_width: %.6f, pilot: 12, most: %d}",
				math.Expm1(unit*c.halfWidth), c.most))
			if err != nil {
				return nil, err
			}
			return stopped(s, c.name, times, draw), nil
		}})
	}
	return list
}

func parse(levels string, nullArm bool, stop string) (*experiment.Spec, error) {
	return experiment.Parse(fmt.Appendf(nil, `experiment: simulated
factors: {mark: [none%s]}
run: {command: "true"}
measures: {rate: {field: rate}}
response: {log_ratio: rate, to: {mark: none}}
design: {null_arm: %t}
stop: %s
`, levels, nullArm, stop))
}

// stopped runs experiments to the end that the stop rule decides.
func stopped(s *experiment.Spec, name string, times int, draw func() float64) []figure {
	turns := s.Order(0)
	// Of several effects the base varies, too: they depend on each other.
	several := len(s.Cells()) > 2
	var covers, width, blocks, null tally
	for range times {
		var rows []experiment.Row
		complete := 0
		for d := s.Decide(nil, 0); complete < d.Blocks; d = s.Decide(rows, complete) {
			for ; complete < d.Blocks; complete++ {
				for _, turn := range turns {
					rows = append(rows, row(turn, complete, several, draw))
				}
			}
		}
		effects := s.Effects(rows, complete, "mark")
		held, half := 0.0, 0.0
		for _, e := range effects {
			low, high := e.Interval(experiment.Confidence)
			held += count(low <= math.Exp(effect) && math.Exp(effect) <= high)
			half += math.Log(high/low) / 2 / unit
		}
		covers.add(held / float64(len(effects)))
		width.add(half / float64(len(effects)))
		blocks.add(float64(complete))
		e, _ := s.Null(rows, complete)
		low, high := e.Interval(experiment.Confidence)
		null.add(count(low > 1 || high < 1))
	}
	held := covers.figure(coverage, name)
	held.HalfWidth, held.Blocks = width.mean(), blocks.mean()
	return []figure{held, null.figure(falsePositives, name+", null arm")}
}

func row(turn experiment.Turn, block int, several bool, draw func() float64) experiment.Row {
	isBase := turn.Cell.Index == 0
	log := 0.0
	switch {
	case several:
		log = unit / math.Sqrt2 * draw()
	case !isBase || turn.Null:
		log = unit * draw()
	}
	if !isBase {
		log += effect
	}
	return experiment.Row{Block: block, Position: turn.Position, Cell: turn.Cell.Index, Null: turn.Null, Attempt: 1, Valid: true, Kept: true,
		Measures: map[string]float64{"rate": math.Exp(log)}}
}

func count(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
