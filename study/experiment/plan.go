package experiment

import (
	"fmt"
	"time"
)

// Plan is what an experiment is going to do.
type Plan struct {
	// Order has the runs of the first blocks.
	Order [][]Turn
	// Blocks says how many there will be.
	Blocks string
	// BlockTime and Least, Most are 0 if they are unknown. Measured: from runs that were
	// carried out.
	BlockTime, Least, Most time.Duration
	Measured               bool
	// Setup: the durations do not include one.
	Setup bool
}

// expectedBlockTime follows from run.duration, without which it is 0.
func (s *Spec) expectedBlockTime() time.Duration {
	if s.Run.Duration == 0 {
		return 0
	}
	return time.Duration(len(s.Order(0))) * time.Duration(s.Run.Duration+*s.Run.Settle+s.Run.Warmup)
}

// Plan describes the first blocks and the expected duration, from rows of earlier blocks if
// there are any.
func (s *Spec) Plan(rows []Row, blocks int) Plan {
	p := Plan{Setup: s.Setup != nil}
	for block := range blocks {
		p.Order = append(p.Order, s.Order(block))
	}
	turns := len(s.Order(0))
	complete := Complete(rows, turns)
	if p.BlockTime = BlockTime(rows, complete); p.BlockTime > 0 {
		p.Measured = true
	} else {
		p.BlockTime = s.expectedBlockTime()
	}
	decision := s.Decide(rows, complete)
	least, most := decision.Blocks, decision.Blocks
	switch decision.Stage {
	case StageFixed:
		p.Blocks = fmt.Sprint(decision.Blocks)
	case StagePilot:
		p.Blocks = fmt.Sprintf("%d of the pilot, then as many as a half-width of %s needs, at most %d", decision.Blocks, s.Stop.HalfWidth, s.Stop.Most)
		most = s.Stop.Most
	default:
		p.Blocks = fmt.Sprintf("%d (%s)", decision.Blocks, decision.Stage)
	}
	p.Least, p.Most = p.BlockTime*time.Duration(least), p.BlockTime*time.Duration(most)
	if budget := time.Duration(s.Stop.Budget); budget > 0 {
		p.Least, p.Most = min(p.Least, budget), min(p.Most, budget)
	}
	return p
}

// BlockTimeText is the time of a block for people.
func (p Plan) BlockTimeText() string {
	switch {
	case p.BlockTime == 0:
		return "unknown: run.duration is not given, and no block has run"
	case p.Measured:
		return round(p.BlockTime) + ", as measured"
	}
	return round(p.BlockTime) + ", from run.duration; treatments come on top"
}

// DurationText is the time of the experiment for people.
func (p Plan) DurationText() string {
	setup := ""
	if p.Setup {
		setup = ", and the setup"
	}
	switch {
	case p.BlockTime == 0:
		return "unknown"
	case p.Least == p.Most:
		return round(p.Least) + setup
	}
	return round(p.Least) + " to " + round(p.Most) + setup
}
