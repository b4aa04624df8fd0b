package main

import (
	"fmt"
	"math"
	"slices"

	"pillion.dev/bench/estimate"
)

// bar compares a figure with its target (issue bars of the sender).
type bar struct {
	Name     string            `json:"name"`
	Sense    string            `json:"sense"`
	Target   float64           `json:"target"`
	Estimate estimate.Estimate `json:"estimate"`
	Verdict  estimate.Verdict  `json:"verdict"`
}

// Largest relative errors of a capacity.
const (
	idleError   = 0.05
	loadedError = 0.15
	coverage    = 0.95
)

func (r *report) bars() (list []bar) {
	valid, holding := 0, 0
	for _, c := range r.Capacities {
		target := idleError
		if c.Load != idle {
			target = loadedError
		}
		list = append(list, bar{"capacity of " + c.Name + ": relative error of valid estimates", "<=", target, c.Error, c.Error.AtMost(target)})
		valid, holding = valid+c.Valid, holding+c.Holding
	}
	e := proportion(holding, valid)
	return append(list, bar{"capacity, all: share of valid intervals that hold the truth", ">=", coverage, e, e.AtLeast(coverage)})
}

// proportion is a share with its 95 % interval (Wilson).
func proportion(of, all int) estimate.Estimate {
	if all == 0 {
		return estimate.Estimate{}
	}
	const z = 1.96
	n, p := float64(all), float64(of)/float64(all)
	center := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return estimate.Estimate{Median: p, Low: max(center-half, 0), High: min(center+half, 1), Confidence: 0.95, Values: all}
}

// claim is a statement of the paper (seed 5) and what this kernel shows of it.
type claim struct {
	Experiment string            `json:"experiment"`
	Claim      string            `json:"claim"`
	Verdict    string            `json:"verdict"` // confirmed, refuted or undecided
	Estimate   estimate.Estimate `json:"estimate"`
	Text       string            `json:"text"` // what the figure is, and the rule
}

var verdicts = map[estimate.Verdict]string{estimate.Met: "confirmed", estimate.Missed: "refuted", estimate.Undecided: "undecided"}

// Rules of E7 and E9.
const (
	closer    = 2    // times
	accurate  = 0.01 // relative error of a rate
	highMbit  = 500  // rates from here on are high
	pre, sock = "pre-dispatch", "raw socket"
)

func (r *report) claims() (list []claim) {
	for _, load := range loads {
		find := func(arm string) *pairCell {
			return r.Pairs[slices.IndexFunc(r.Pairs, func(p *pairCell) bool { return p.Arm == arm && p.Load == load })]
		}
		e := ratio(find(sock).gaps, find(pre).gaps)
		list = append(list,
			claim{"E7", "pairs are 2 to 10 times closer than those of a raw socket", verdicts[e.AtLeast(closer)], e,
				fmt.Sprintf("raw socket over pre-dispatch, p50 of the gap behind two routers, %s, at least %d", load, closer)},
			claim{"E7", "the highest measurable capacity increases", verdicts[e.AtLeast(1)], e,
				fmt.Sprintf("the same ratio, at least 1: from %s to %s Gbit/s of frames", find(sock).Measurable, find(pre).Measurable)})
	}
	for _, t := range r.Trains {
		c := claim{Experiment: "E9", Estimate: t.Error, Text: fmt.Sprintf("relative error of the rate behind two routers beside a competing flow, %d Mbit/s", t.Mbit)}
		switch {
		case t.Arm == pre:
			c.Claim, c.Verdict = "trains of 50 are sent accurately at the rate asked for with pre-dispatch", verdicts[t.Error.AtMost(accurate)]
			c.Text += fmt.Sprintf(", at most %g", accurate)
			list = append(list, claim{"E9", c.Claim, verdicts[t.SentError.AtMost(accurate)], t.SentError,
				fmt.Sprintf("the same at the driver of the sender, %d Mbit/s, at most %g", t.Mbit, accurate)})
		case t.Mbit >= highMbit:
			c.Claim, c.Verdict = "the delay of a raw socket is significant at high rates", verdicts[t.Error.AtLeast(accurate)]
			c.Text += fmt.Sprintf(", at least %g", accurate)
		default:
			continue // the paper claims nothing
		}
		list = append(list, c)
	}
	return list
}

// ratio of the medians of two cells, block by block.
func ratio(of, to [][]float64) estimate.Estimate {
	var values []float64
	for i := range min(len(of), len(to)) {
		values = append(values, estimate.Median(of[i])/estimate.Median(to[i]))
	}
	return estimate.Of(values)
}
