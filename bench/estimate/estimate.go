// Package estimate states what repeated measurements show: a median with its confidence
// interval, and whether that decides about a target. It is for experiments only.
package estimate

import (
	"fmt"
	"slices"
)

// Median returns the middle value, or the mean of the two middle ones; 0 for none. It does
// not change its argument.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Estimate is a median with its confidence interval. It says nothing about the tails, nor
// about errors that all values have in common.
type Estimate struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	// Confidence is the probability that such an interval contains the true median.
	Confidence float64 `json:"confidence"`
	Values     int     `json:"values"`
}

// leastConfidence is required of an interval that decides. Fewer than 6 values do not reach it.
const leastConfidence = 0.95

// Of returns the narrowest symmetric pair of order statistics that reaches leastConfidence,
// minimum and maximum if none does. Values are assumed to be independent; nothing is
// assumed about their distribution.
func Of(values []float64) Estimate {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return Estimate{}
	}
	// The interval excludes k values at either end; tail is the probability that at most
	// k of n values are below the true median: a cumulative binomial distribution.
	term := 1.0
	for range n {
		term /= 2
	}
	k, tail := 0, term
	for {
		term *= float64(n-k) / float64(k+1)
		if 1-2*(tail+term) < leastConfidence {
			break
		}
		k, tail = k+1, tail+term
	}
	return Estimate{Median(sorted), sorted[k], sorted[n-1-k], max(1-2*tail, 0), n}
}

// IsDecisive reports whether there are enough values.
func (e Estimate) IsDecisive() bool { return e.Confidence >= leastConfidence }

func (e Estimate) String() string {
	return fmt.Sprintf("%.3f [%.3f..%.3f]", e.Median, e.Low, e.High)
}

// A Verdict says whether a target is reached: only if the whole interval is on one side of it.
type Verdict string

// Verdicts.
const (
	Met       Verdict = "met"
	Missed    Verdict = "missed"
	Undecided Verdict = "undecided"
)

// AtLeast compares the interval with a minimum.
func (e Estimate) AtLeast(target float64) Verdict {
	switch {
	case !e.IsDecisive():
		return Undecided
	case e.Low >= target:
		return Met
	case e.High < target:
		return Missed
	}
	return Undecided
}

// AtMost compares the interval with a maximum.
func (e Estimate) AtMost(target float64) Verdict {
	switch {
	case !e.IsDecisive():
		return Undecided
	case e.High <= target:
		return Met
	case e.Low > target:
		return Missed
	}
	return Undecided
}
