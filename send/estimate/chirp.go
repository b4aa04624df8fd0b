package estimate

import (
	"math"
	"math/rand/v2"
)

// AvailableInsideRates: the available bandwidth lies between the rates of a chirp.
const AvailableInsideRates Assumption = "rates enclose the available bandwidth"

// ChirpAssumptions and SLoPSAssumptions are those that the estimates of available bandwidth test.
var (
	ChirpAssumptions = []Assumption{EnoughSamples, SeparateArrivals, AvailableInsideRates}
	SLoPSAssumptions = []Assumption{SteadySending, ConsistentTrends}
)

// ChirpEstimate is the available bandwidth by chirps.
type ChirpEstimate struct {
	// Rate is the available bandwidth. Its interval covers the mean over all chirps: at
	// times the available bandwidth may lie outside.
	Rate  Interval `json:"rate"`
	Valid bool     `json:"valid"`
	// Chirps used; Lossy and Reordered are left out.
	Chirps    int       `json:"chirps"`
	Lossy     int       `json:"lossy"`
	Reordered int       `json:"reordered"`
	Findings  []Finding `json:"findings"`
}

// strain is how much the one-way delay grows in a gap, per time, at the rate of the gap.
type strain struct {
	rate, growth, gap float64 // bit/s, without unit, ns
}

// EstimateChirps estimates the available bandwidth from chirps, trains whose gaps shrink
// (pathChirp: V. Ribeiro, R. Riedi, R. Baraniuk, J. Navratil and L. Cottrell, PAM 2003). In
// the mean over all chirps the delay stays the same up to the available bandwidth A; above it, a queue in front of a
// link of the capacity C grows by (R - A) / C at the rate R. A is where that line, fitted to all gaps, begins (TOPP: B.
// Melander, M. Björkman and P. Gunningberg, GLOBECOM 2000). Unlike pathChirp's analysis
// of each chirp's excursions, this averages the errors of receive times. The interval is a
// percentile bootstrap over chirps.
func EstimateChirps(chirps []Train) ChirpEstimate {
	var c Capacity
	usable := c.usable(chirps)
	e := ChirpEstimate{Lossy: c.Lossy, Reordered: c.Reordered}
	var list []Train
	var gaps []gap
	for _, chirp := range usable {
		if len(chirp) == len(usable[0]) {
			list = append(list, chirp)
			gaps = append(gaps, gapsOf(chirp)...)
		}
	}
	e.Chirps = len(list)
	if e.Chirps < fewestSamples || len(list[0]) < longTrain {
		e.Findings = append(e.Findings, finding(EnoughSamples, true, "%d chirps; at least %d of %d packets are required", e.Chirps, fewestSamples, longTrain))
		return e
	}
	if share := coalesced(list, gaps); share >= tooCloseShare {
		e.Findings = append(e.Findings, finding(SeparateArrivals, true,
			"%.0f %% of the gaps are (nearly) zero: GRO or interrupt coalescing at the receiver", 100*share))
	}
	all := strains(list, nil)
	value := bend(all)
	r := rand.New(rand.NewPCG(1, 5))
	values := make([]float64, replicates)
	for i := range values {
		values[i] = bend(strains(list, r))
	}
	e.Rate = between(value, values)
	if lowest, highest := all[0].rate, all[len(all)-1].rate; e.Rate.Low <= lowest || e.Rate.High >= highest {
		e.Findings = append(e.Findings, finding(AvailableInsideRates, true,
			"chirps of %s to %s do not enclose it: send other rates", Bits(lowest), Bits(highest)))
	}
	e.Valid = valid(e.Findings)
	return e
}

// strains are the means over the chirps, or over as many drawn from them if r is not nil, in
// the order of the gaps.
func strains(chirps []Train, r *rand.Rand) []strain {
	mean := make([]gap, len(chirps[0])-1)
	for i := range chirps {
		chirp := chirps[i]
		if r != nil {
			chirp = chirps[r.IntN(len(chirps))]
		}
		for k := range mean {
			mean[k].sent += chirp[k+1].SentNS - chirp[k].SentNS
			mean[k].received += chirp[k+1].ReceivedNS - chirp[k].ReceivedNS
			mean[k].size += int64(chirp[k+1].Size)
		}
	}
	var list []strain
	for _, g := range mean {
		if g.sent > 0 {
			list = append(list, strain{
				rate:   float64(g.size) * 8e9 / float64(g.sent),
				growth: float64(g.received-g.sent) / float64(g.sent),
				gap:    float64(g.sent),
			})
		}
	}
	return list
}

const (
	bendCandidates = 200
	leastGrowth    = 0.05 // at the highest rate: less is an error of the receive times
)

// bend is the rate from which on the delay grows in proportion to the rate: of candidates
// from the lowest to the highest rate, the one with the least squared error. The variance
// of the growth in a gap falls with its length.
func bend(list []strain) float64 {
	if len(list) == 0 {
		return 0
	}
	lowest, highest := list[0].rate, list[len(list)-1].rate
	best, at := math.Inf(1), highest
	for i := range bendCandidates {
		candidate := lowest * math.Pow(highest/lowest, float64(i)/(bendCandidates-1))
		product, square := 0.0, 0.0
		for _, s := range list {
			above := max(s.rate-candidate, 0)
			product, square = product+s.gap*above*s.growth, square+s.gap*above*above
		}
		slope := 0.0
		if square > 0 {
			slope = product / square
		}
		if slope*(highest-candidate) < leastGrowth {
			slope = 0
		}
		sum := 0.0
		for _, s := range list {
			e := s.growth - slope*max(s.rate-candidate, 0)
			sum += s.gap * e * e
		}
		if slope == 0 {
			candidate = highest
		}
		if sum < best {
			best, at = sum, candidate
		}
	}
	return at
}
