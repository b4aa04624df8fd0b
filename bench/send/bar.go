package main

import (
	"fmt"
	"slices"

	"pillion.dev/bench/estimate"
)

// bars of what was run.
func bars(all []*cell) (list []estimate.Bar) {
	find := func(k kind, load, arm string, like *cell) *cell {
		for _, c := range all {
			if c.Kind == k && c.Load == load && c.Arm == arm && c.AskGap == like.AskGap {
				return c
			}
		}
		return nil
	}
	for _, c := range all {
		if c.Load == throttled || c.Arm != "initial" && c.Arm != "on the fly" {
			continue // for comparison, without a target
		}
		switch c.Kind {
		case train:
			plain := find(train, c.Load, "socket", c)
			if c.Load == "idle" {
				list = append(list, estimate.AtMost(c.Name+": p50, us", 1.5, c.P50), estimate.AtMost(c.Name+": p99, us", 25, c.P99),
					estimate.AtLeast(c.Name+": within 10 us", 0.98, c.Within10),
					estimate.AtLeast(c.Name+": times better than the socket at p50", 50, ratio(plain, c, 0.5)))
			} else {
				list = append(list, estimate.AtMost(c.Name+": p50, us", 2, c.P50), estimate.AtLeast(c.Name+": within 10 us", 0.96, c.Within10),
					estimate.AtLeast(c.Name+": within 100 us", 0.98, c.Within100),
					estimate.AtLeast(c.Name+": times better than the socket at p99", 100, ratio(plain, c, 0.99)))
			}
		case pair:
			if c.Arm == "initial" {
				list = append(list, estimate.AtMost(c.Name+": distance, us", 2, c.Gap),
					estimate.AtLeast(c.Name+": times closer than the socket's", 3, gapRatio(find(pair, c.Load, "socket", c), c)))
			}
		case flush:
			list = append(list, estimate.AtMost(fmt.Sprintf("%s: distance, us", c.Name), 1.2, c.MeanGap))
		case rate:
			list = append(list, estimate.AtMost(c.Name+": rate above that asked for", 0.001, c.RateError), estimate.AtLeast(c.Name+": rate below that asked for", -0.001, c.RateError))
			if c.bitsPerSecond == 50e6 {
				list = append(list, estimate.AtMost(c.Name+": mean distance, us", 243.24, c.MeanGap), estimate.AtLeast(c.Name+": mean distance, us", 241.24, c.MeanGap))
			}
		}
	}
	return slices.DeleteFunc(list, func(b estimate.Bar) bool { return b.Estimate.Values == 0 }) // of what was not run
}

// ratio of the errors of two cells, block by block.
func ratio(of, to *cell, q float64) estimate.Estimate {
	var values []float64
	for i := range min(len(of.errors), len(to.errors)) {
		a, b := of.errors[i], to.errors[i] // sorted by close
		values = append(values, a[int(q*float64(len(a)-1))]/b[int(q*float64(len(b)-1))])
	}
	return estimate.Of(values)
}

func gapRatio(of, to *cell) estimate.Estimate {
	var values []float64
	for i := range min(len(of.gaps), len(to.gaps)) {
		values = append(values, estimate.Median(of.gaps[i])/estimate.Median(to.gaps[i]))
	}
	return estimate.Of(values)
}
