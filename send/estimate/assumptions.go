package estimate

import (
	"math"
	"slices"
)

// Where a deviation from an assumption is reported, and where it invalidates the estimate.
const (
	coarse, tooCoarse = 0.02, 0.15 // resolution of receive times, relative to the dispersion
	nearly            = 0.1        // of the mean time a byte
	closeShare        = 0.05       // of all gaps: reported
	tooCloseShare     = 0.2        // of all gaps: invalid
	limiterRatio      = 1.5        // of the rates before and after a change
	limiterPart       = 4          // gaps at least before and after a change
	limiterTrains     = 3
	tooWide           = 0.15 // distance of a bound from the estimate
)

// assumptions checks what does not depend on the estimate. The gaps are within pairs, or
// within all trains.
func assumptions(trains []Train, gaps []gap, arePairs bool) []Finding {
	var findings []Finding
	if len(gaps) < fewestSamples {
		findings = append(findings, finding(EnoughSamples, true, "%d gaps; at least %d are required", len(gaps), fewestSamples))
	}
	if share := coalesced(trains, gaps); share >= closeShare {
		findings = append(findings, finding(SeparateArrivals, share >= tooCloseShare,
			"%.0f %% of the gaps are (nearly) zero: GRO or interrupt coalescing at the receiver", 100*share))
	}
	return append(findings, limiter(trains, arePairs)...)
}

// coalesced is the share of gaps that are zero or, where trains show that packets arrive in
// bunches, nearly no time a byte. A train of bunches has close gaps behind wide ones; one
// that a token bucket lets pass has them only at its beginning.
func coalesced(trains []Train, gaps []gap) float64 {
	var whole gap
	bunched, all := 0, 0
	for _, train := range trains {
		var total gap
		own := gapsOf(train)
		for _, g := range own {
			total.received, total.size = total.received+g.received, total.size+g.size
		}
		whole.received, whole.size = whole.received+total.received, whole.size+total.size
		if len(own) == 1 {
			continue
		}
		wide := false
		for _, g := range own {
			if all++; !g.closeTo(total) {
				wide = true
			} else if wide {
				bunched++
			}
		}
	}
	near := 0
	inBunches := float64(bunched) >= closeShare*float64(all) && bunched > 0
	for _, g := range gaps {
		if g.received == 0 || inBunches && g.closeTo(whole) {
			near++
		}
	}
	return max(float64(near)/max(float64(len(gaps)), 1), float64(bunched)/max(float64(all), 1))
}

// closeTo reports whether the gap took far less time a byte than the total.
func (g gap) closeTo(total gap) bool {
	return float64(g.received)*float64(total.size) < nearly*float64(total.received)*float64(g.size)
}

// unclear reports an interval that reaches from one mode to another, or too far.
func unclear(rate Interval) []Finding {
	if rate.Low >= (1-tooWide)*rate.Value && rate.High <= (1+tooWide)*rate.Value {
		return nil
	}
	return []Finding{finding(ClearMode, true, "the samples are consistent with rates from %s to %s", Bits(rate.Low), Bits(rate.High))}
}

// resolution compares the unit of the receive times with the gaps at the estimated rate,
// and widens its interval by the error that it can cause.
func (c *Capacity) resolution(trains []Train, gaps []gap) []Finding {
	var sizes []float64
	for _, g := range gaps {
		sizes = append(sizes, float64(g.size))
	}
	unit := receiveUnit(trains)
	relative := float64(unit) * c.Rate.Value / (8e9 * median(sizes))
	c.Rate.Low /= 1 + relative
	if relative < 1 {
		c.Rate.High /= 1 - relative
	}
	if relative < coarse {
		return nil
	}
	return []Finding{finding(FineTimestamps, relative >= tooCoarse,
		"receive times are multiples of %d ns, %.0f %% of the gap of a pair", unit, 100*relative)}
}

// receiveUnit is the greatest common divisor of the differences between all receive times,
// in ns: the resolution of a clock that counts in whole nanoseconds or multiples of them.
func receiveUnit(trains []Train) int64 {
	unit := int64(0)
	for _, train := range trains {
		for _, p := range train {
			a := p.ReceivedNS - trains[0][0].ReceivedNS
			for a != 0 {
				unit, a = a, unit%a
			}
		}
	}
	return max(unit, -unit)
}

// senderLimit compares the gaps at the sender with those that the estimated rate needs. A
// train sent slower than the path shows the rate of sending, not the path's.
func senderLimit(gaps []gap, rate float64) []Finding {
	slow := 0
	for _, g := range gaps {
		if float64(g.sent) >= 0.9*float64(g.size)*8e9/rate {
			slow++
		}
	}
	share := float64(slow) / float64(len(gaps))
	if share < 0.5 {
		return nil
	}
	return []Finding{finding(SenderFaster, true,
		"%.0f %% of the gaps were as long when sent: the rate is a lower bound of the capacity", 100*share)}
}

// limiter looks for a change to a lower rate after about the same number of bytes in most
// long trains, as a token bucket causes it once it is empty.
//
// Pairs then show the rate of the link, but gaps within trains both rates.
func limiter(trains []Train, arePairs bool) []Finding {
	long := 0
	var before, after, bursts []float64
	for _, train := range trains {
		if len(train) < longTrain {
			continue
		}
		long++
		if fast, slow, bytes, found := slowdown(gapsOf(train)); found {
			before, after, bursts = append(before, fast), append(after, slow), append(bursts, bytes)
		}
	}
	if len(bursts) < limiterTrains || 2*len(bursts) < long {
		return nil
	}
	slices.Sort(bursts)
	if quantile(bursts, 0.75)-quantile(bursts, 0.25) > 0.5*quantile(bursts, 0.5) {
		return nil
	}
	return []Finding{finding(ConstantRate, !arePairs,
		"the rate falls from %s to %s after %.0f bytes in %d of %d trains: a rate limiter such as a token bucket",
		Bits(median(before)), Bits(median(after)), quantile(bursts, 0.5), len(bursts), long)}
}

// slowdown finds the place that best divides the gaps into two parts of constant time a
// byte. It returns the rates of both in bit/s and the bytes of the first part, if the
// second is clearly slower.
func slowdown(gaps []gap) (fast, slow, bytes float64, found bool) {
	time, size := make([]float64, len(gaps)+1), make([]float64, len(gaps)+1)
	for i, g := range gaps {
		time[i+1], size[i+1] = time[i]+float64(g.received), size[i]+float64(g.size)
	}
	last, best, at := len(gaps), math.Inf(1), 0
	errors := func(from, to int) float64 { // squared, of the time that each packet takes
		pace, sum := (time[to]-time[from])/(size[to]-size[from]), 0.0
		for _, g := range gaps[from:to] {
			e := float64(g.received) - pace*float64(g.size)
			sum += e * e
		}
		return sum
	}
	for k := limiterPart; k <= last-limiterPart; k++ {
		if e := errors(0, k) + errors(k, last); e < best {
			best, at = e, k
		}
	}
	if at == 0 || time[at] == 0 {
		return 0, 0, 0, false
	}
	fast, slow = 8e9*size[at]/time[at], 8e9*(size[last]-size[at])/(time[last]-time[at])
	// Half of the squared error, or more, must be explained by the change.
	return fast, slow, size[at], fast >= limiterRatio*slow && best <= errors(0, last)/2
}
