package experiment

import (
	"fmt"
	"math"
	"strings"
	"time"

	"pillion.dev/internal/quantity"
)

// State is how far an experiment is.
type State struct {
	// Blocks are complete; of Decision.Blocks.
	Blocks   int
	Decision Decision
	// Runs counts all rows, Invalid the rows that do not count, and Abandoned the rows of blocks that were begun
	// again.
	Runs, Invalid, Abandoned int
	Effects                  []Effect
	Null                     *Estimate
	Judged                   []Judged
	Spent, Left              time.Duration
	// Finished: no block is left. OverBudget: the budget ends it before the width is reached.
	Finished, OverBudget bool
	spec                 *Spec
	// invalid is why the last run does not count, "" if it does.
	invalid string
}

// StageText is the stage of the decision for people.
func (p State) StageText() string {
	if p.Decision.Stage == StageStein && p.Decision.Blocks == p.spec.Stop.Pilot {
		return "the pilot suffices"
	}
	return p.Decision.Stage
}

// Progress computes the state of an experiment from its rows.
func Progress(s *Spec, rows []Row) State {
	complete := Complete(rows, len(s.Order(0)))
	p := State{Blocks: complete, Decision: s.Decide(rows, complete), Runs: len(rows), spec: s,
		Judged: s.Judge(rows, complete), Spent: Spent(rows)}
	for _, row := range rows {
		switch {
		case !row.Kept:
			p.Abandoned++
		case !row.Valid:
			p.Invalid++
		}
	}
	if len(rows) > 0 && !rows[len(rows)-1].Valid {
		p.invalid = rows[len(rows)-1].Why
	}
	if s.Stop.Effect != "" {
		p.Effects = s.Effects(rows, complete, s.Stop.Effect)
	} else if s.Response != nil {
		for _, f := range s.Factors {
			if s.Response.To[f.Name] != "" {
				p.Effects = append(p.Effects, s.Effects(rows, complete, f.Name)...)
			}
		}
	}
	if null, ok := s.Null(rows, complete); ok {
		p.Null = &null
	}
	blockTime := BlockTime(rows, complete)
	p.Left = blockTime * time.Duration(max(0, p.Decision.Blocks-complete))
	p.Finished = complete >= p.Decision.Blocks
	if budget := time.Duration(s.Stop.Budget); budget > 0 && !p.Finished && p.Spent+blockTime > budget {
		p.OverBudget, p.Left = true, 0
	}
	return p
}

// Width is the largest half-width of the effects, as a share; infinite if it is unknown.
func (p State) Width() float64 {
	widest := math.Inf(1)
	for i, e := range p.Effects {
		if i == 0 || e.HalfWidth() > widest {
			widest = e.HalfWidth()
		}
	}
	return widest
}

// Line is the state in one line.
func (p State) Line() string {
	parts := []string{fmt.Sprintf("%d of %s (%s)", p.Blocks, quantity.Count(p.Decision.Blocks, "block"), p.StageText())}
	if w := p.Width(); !math.IsInf(w, 0) {
		text := "half-width " + Percent(w)
		if p.spec.Stop.HalfWidth > 0 {
			text += ", wanted " + p.spec.Stop.HalfWidth.String()
		}
		parts = append(parts, text)
	}
	if p.Invalid > 0 {
		parts = append(parts, quantity.Count(p.Invalid, "invalid run"))
	}
	if p.Left > 0 {
		parts = append(parts, "about "+round(p.Left)+" left")
	}
	return strings.Join(parts, "; ")
}

// Ending says why the experiment ended, or what is left of it.
func (p State) Ending() string {
	width := "no width is known"
	if w := p.Width(); !math.IsInf(w, 0) {
		width = "the half-width reached is " + Percent(w)
	}
	wanted := p.spec.Stop.HalfWidth
	switch {
	case p.OverBudget && wanted > 0:
		return fmt.Sprintf("the budget of %s is spent: %s, %s was wanted", p.spec.Stop.Budget, width, wanted)
	case p.OverBudget:
		return fmt.Sprintf("the budget of %s is spent after %d of %d blocks", p.spec.Stop.Budget, p.Blocks, p.Decision.Blocks)
	case !p.Finished:
		text := fmt.Sprintf("unfinished: %d of %s", p.Blocks, quantity.Count(p.Decision.Blocks, "block"))
		if p.invalid != "" {
			text += "; the last run was invalid: " + p.invalid
		}
		return text
	case wanted == 0:
		return "finished"
	case p.Width() <= float64(wanted):
		return fmt.Sprintf("finished: %s, %s was wanted", width, wanted)
	case p.Decision.Wanted > 0:
		return fmt.Sprintf("finished at the limit of %d blocks: %s, %s was wanted, for which about %d blocks are needed",
			p.spec.Stop.Most, width, wanted, p.Decision.Wanted)
	}
	return fmt.Sprintf("finished after the only top-up: %s, %s was wanted", width, wanted)
}
