package estimate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Hop is a link of the path, estimated from round-trip times to the router behind it.
type Hop struct {
	// Rate is the capacity of the link in bit/s, 0 if it is faster than what can be measured:
	// then Low is the bound.
	Rate  Interval `json:"rate"`
	Valid bool     `json:"valid"`
	// RoundTripNS is the minimum round-trip time to the hop, of a packet of size 0, or of the
	// packets sent if there are too few; QueueNS is the median of how much longer packets took,
	// less the same median of the hop before.
	RoundTripNS float64   `json:"round_trip_ns"`
	QueueNS     float64   `json:"queue_ns"`
	Samples     int       `json:"samples"`
	Findings    []Finding `json:"findings"`
}

// Echo is a round trip to a router.
type Echo struct {
	Size int // bytes of the packet
	// RoundTripNS is the time until the reply, which is equally long for all sizes.
	RoundTripNS int64
}

// Assumptions of the estimates of hops.
const (
	// Linear: the least round-trip times lie on a line over the size.
	Linear Assumption = "linear least round-trip times"
	// Growing: a packet takes longer to a hop than to the one before it.
	Growing Assumption = "slope grows with the hop"
)

// HopAssumptions are those that EstimateHops tests.
var HopAssumptions = []Assumption{EnoughSamples, Linear, Growing}

// line is a line through least round-trip times, in ns and ns a byte.
type line struct{ intercept, slope float64 }

// EstimateHops estimates the link before each hop by the variable packet size method of
// pathchar (V. Jacobson, 1997; A. Downey, Using pathchar to estimate Internet link
// characteristics, SIGCOMM 1999): the least round-trip time to a hop grows with the size of the packet by the
// time that all links up to it take for a byte. It assumes that each router stores and
// forwards whole packets, that some packet of each size meets no queue, that replies are
// equally long and fast for all sizes, and that the route does not change. Intervals are
// a percentile bootstrap over the round trips of each size.
func EstimateHops(hops [][]Echo) []Hop {
	r := rand.New(rand.NewPCG(1, 4))
	results := make([]Hop, len(hops))
	before, beforeQueue := make([]line, replicates+1), 0.0
	for i, echoes := range hops {
		h := &results[i]
		h.Samples = len(echoes)
		bySize := groupBySize(echoes)
		if len(echoes) < fewestSamples || len(bySize) < 3 {
			h.Findings = append(h.Findings, finding(EnoughSamples, true, "%d replies to packets of %d sizes; at least %d of 3 are required", len(echoes), len(bySize), fewestSamples))
			for j, e := range echoes {
				if rtt := float64(e.RoundTripNS); j == 0 || rtt < h.RoundTripNS {
					h.RoundTripNS = rtt
				}
			}
			continue // the next hop is compared with the one before
		}
		lines := make([]line, replicates+1)
		lines[0] = fitLeast(bySize, nil)
		for k := 1; k <= replicates; k++ {
			lines[k] = fitLeast(bySize, r)
		}
		h.RoundTripNS = lines[0].intercept
		queue := h.queueing(bySize, lines[0])
		h.QueueNS, beforeQueue = queue-beforeQueue, queue
		h.rate(lines, before)
		h.Valid = valid(h.Findings)
		before = lines
	}
	return results
}

// rate follows from the slopes of the line and the line of the hop before, and of their replicates.
func (h *Hop) rate(lines, before []line) {
	var slopes []float64
	for k := range lines {
		slopes = append(slopes, lines[k].slope-before[k].slope)
	}
	slope := slopes[0]
	s := between(slope, slopes[1:])
	const bits = 8e9
	if s.High <= 0 {
		h.Findings = append(h.Findings, finding(Growing, true, "the slope is %.3g ns a byte lower than the slope of the hop before: its router replies on a slower path", -slope))
		return
	}
	h.Rate.Low = bits / s.High
	if s.Low <= 0 {
		h.Findings = append(h.Findings, finding(Growing, true, "the slope does not differ clearly from the slope of the hop before: the link is faster than %s, or too few packets met no queue", Bits(h.Rate.Low)))
		return
	}
	h.Rate.Value, h.Rate.High = bits/slope, bits/s.Low
}

// bent is how far, relative to the growth over all sizes, the least round-trip times may lie from the line.
const bent = 0.25

// queueing is the median of the time above the line, and tests how well the line fits.
func (h *Hop) queueing(bySize [][]Echo, l line) float64 {
	var above, off []float64
	for _, group := range bySize {
		fitted := l.intercept + l.slope*float64(group[0].Size)
		off = append(off, math.Abs(float64(group[0].RoundTripNS)-fitted))
		for _, e := range group {
			above = append(above, max(float64(e.RoundTripNS)-fitted, 0))
		}
	}
	growth := l.slope * float64(bySize[len(bySize)-1][0].Size-bySize[0][0].Size)
	if typical := median(off); growth > 0 && typical > bent*growth {
		h.Findings = append(h.Findings, finding(Linear, false, "least round-trip times lie %.3g ns from the line, which grows by %.3g ns", typical, growth))
	}
	return median(above)
}

// groupBySize sorts the round trips by size, and each group by time.
func groupBySize(echoes []Echo) (groups [][]Echo) {
	sorted := slices.SortedFunc(slices.Values(echoes), func(a, b Echo) int {
		return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.RoundTripNS, b.RoundTripNS))
	})
	for first := 0; first < len(sorted); {
		last := first
		for last < len(sorted) && sorted[last].Size == sorted[first].Size {
			last++
		}
		groups, first = append(groups, sorted[first:last]), last
	}
	return groups
}

// fitLeast fits a line to the least round-trip time of each size, of as many drawn from them if
// r is not nil: by the median of the slopes of all pairs of sizes (Theil and Sen), which a
// size that always met a queue does not disturb.
func fitLeast(bySize [][]Echo, r *rand.Rand) line {
	least := make([]float64, len(bySize))
	for i, group := range bySize {
		at := 0
		if r != nil {
			at = len(group) - 1
			for range group {
				at = min(at, r.IntN(len(group)))
			}
		}
		least[i] = float64(group[at].RoundTripNS)
	}
	var slopes []float64
	for i := range least {
		for k := range i {
			slopes = append(slopes, (least[i]-least[k])/float64(bySize[i][0].Size-bySize[k][0].Size))
		}
	}
	l := line{slope: median(slopes)}
	var intercepts []float64
	for i := range least {
		intercepts = append(intercepts, least[i]-l.slope*float64(bySize[i][0].Size))
	}
	l.intercept = median(intercepts)
	return l
}
