package main

import (
	"fmt"
	"math"
	"slices"

	"pillion.dev/bench/estimate"
)

// Largest relative errors of a capacity.
const (
	idleError   = 0.05
	loadedError = 0.15
	coverage    = 0.95
)

func (r *report) bars() (list []estimate.Bar) {
	valid, holding := 0, 0
	for _, c := range r.Capacities {
		target := idleError
		if c.Load != idle {
			target = loadedError
		}
		list = append(list, estimate.AtMost("capacity of "+c.Name+": relative error of valid estimates", target, c.Error))
		valid, holding = valid+c.Valid, holding+c.Holding
	}
	e := proportion(holding, valid)
	return append(list, estimate.AtLeast("capacity, all: share of valid intervals that hold the truth", coverage, e))
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

// Rules of E7 and E9.
const (
	closer    = 2    // times
	accurate  = 0.01 // relative error of a rate
	highMbit  = 500  // rates from here on are high
	pre, sock = "pre-dispatch", "raw socket"
)

func (r *report) claims() (list []estimate.Claim) {
	for _, load := range loads {
		find := func(arm string) *pairCell {
			return r.Pairs[slices.IndexFunc(r.Pairs, func(p *pairCell) bool { return p.Arm == arm && p.Load == load })]
		}
		e := ratio(find(sock).gaps, find(pre).gaps)
		list = append(list,
			estimate.ClaimAtLeast("E7", "pairs are 2 to 10 times closer than those of a raw socket", closer, e,
				fmt.Sprintf("raw socket over pre-dispatch, p50 of the gap behind two routers, %s", load)),
			estimate.NewClaim("E7", "the highest measurable capacity increases", e.AtLeast(1), e,
				fmt.Sprintf("the same ratio, at least 1: from %s to %s Gbit/s of frames", find(sock).Measurable, find(pre).Measurable)))
	}
	for _, t := range r.Trains {
		rule := fmt.Sprintf("relative error of the rate behind two routers beside a competing flow, %d Mbit/s", t.Mbit)
		switch {
		case t.Arm == pre:
			const claim = "trains of 50 are sent accurately at the rate asked for with pre-dispatch"
			list = append(list,
				estimate.ClaimAtMost("E9", claim, accurate, t.SentError, fmt.Sprintf("the same at the driver of the sender, %d Mbit/s", t.Mbit)),
				estimate.ClaimAtMost("E9", claim, accurate, t.Error, rule))
		case t.Mbit >= highMbit:
			list = append(list, estimate.ClaimAtLeast("E9", "the delay of a raw socket is significant at high rates", accurate, t.Error, rule))
		} // of others the paper claims nothing
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
