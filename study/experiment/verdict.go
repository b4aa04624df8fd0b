package experiment

import (
	"fmt"
	"math"

	"pillion.dev/measure/verdict"
)

// What a target is of.
const (
	OfRatio = "ratio"
	OfMean  = "mean"
)

// Judged is a target with its estimate.
type Judged struct {
	Target Target
	Estimate
	Low, High float64
	// Confidence of the interval.
	Confidence float64
	Verdict    verdict.Verdict
}

// Judge compares the targets with what the complete blocks show.
func (s *Spec) Judge(rows []Row, blocks int) []Judged {
	var list []Judged
	for _, t := range s.Targets {
		e := s.estimate(s.compared(rows, blocks, t), s.judged(t))
		e.Plain = t.Of == OfMean
		list = append(list, judge(t, e))
	}
	return list
}

// judged returns the cells that a target is about: the selected cells, of a ratio without the cells that ratios are
// relative to. The ratio of the latter is 1 by definition and would only dilute the ratios of the others.
func (s *Spec) judged(t Target) []int {
	var cells []int
	for _, c := range s.Cells() {
		if t.Where.fits(c.Levels) && !(t.Of == OfRatio && s.Response.base().fits(c.Levels)) {
			cells = append(cells, c.Index)
		}
	}
	return cells
}

func judge(t Target, e Estimate) Judged {
	confidence := Confidence
	if t.Within != nil { // two one-sided tests at 5 % are one interval of 90 %
		confidence = 2*Confidence - 1
	}
	j := Judged{Target: t, Estimate: e, Confidence: confidence, Verdict: verdict.Undecided}
	j.Low, j.High = e.Interval(confidence)
	if e.Blocks < 2 {
		j.Low, j.High = math.Inf(-1), math.Inf(1)
		if !e.Plain {
			j.Low = 0
		}
		return j
	}
	low, high := math.Inf(-1), math.Inf(1)
	switch {
	case t.AtLeast != nil:
		low = *t.AtLeast
	case t.AtMost != nil:
		high = *t.AtMost
	case t.Within != nil:
		low, high = 1/(1+float64(*t.Within)), 1+float64(*t.Within)
	}
	j.Verdict = verdict.Of(j.Low, j.High, low, high)
	return j
}

// String is the target as a sentence.
func (t Target) String() string {
	what := fmt.Sprintf("%s of %s", t.Measure, t.Where)
	if t.Of == OfMean {
		what = "mean " + what
	}
	switch {
	case t.AtLeast != nil:
		return fmt.Sprintf("%s at least %g", what, *t.AtLeast)
	case t.AtMost != nil:
		return fmt.Sprintf("%s at most %g", what, *t.AtMost)
	}
	return fmt.Sprintf("%s equal within %s", what, *t.Within)
}
