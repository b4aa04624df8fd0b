package estimate

import (
	"cmp"
	"math"
	"slices"
)

// Trend says whether the one-way delays of a stream increased.
type Trend string

// Trends of a stream.
const (
	Increasing    Trend = "increasing"
	NonIncreasing Trend = "non-increasing"
	Ambiguous     Trend = "ambiguous"
	// Unusable streams were too short, were not sent at one rate, or arrived in bunches.
	Unusable Trend = "unusable"
)

// Thresholds of both trend tests as in pathload 1.3, and what makes a stream usable.
const (
	increasingPCT, nonIncreasingPCT = 0.66, 0.54
	increasingPDT, nonIncreasingPDT = 0.55, 0.45
	fewestInStream                  = 36 // packets: 6 groups of 6
	steadiness                      = 0.1
	overload                        = 0.1 // share of lost packets
)

// TrendOf applies pathload's pairwise comparison test (PCT) and pairwise difference test
// (PDT) to the medians of groups of about the square root of n one-way delays. A stream that
// lost more than a tenth of its packets is increasing. (M. Jain and C. Dovrolis, End-to-end
// available bandwidth, IEEE/ACM Transactions on Networking 11, 2003.)
func TrendOf(stream Train) Trend {
	var delays []float64
	var gaps []gap
	for i, p := range stream {
		if p.Lost {
			continue
		}
		delays = append(delays, float64(p.ReceivedNS-p.SentNS))
		if i > 0 && !stream[i-1].Lost {
			gaps = append(gaps, gap{p.SentNS - stream[i-1].SentNS, p.ReceivedNS - stream[i-1].ReceivedNS, int64(p.Size)})
		}
	}
	lost := len(stream) - len(delays)
	switch {
	case len(stream) < fewestInStream || !steady(stream):
		return Unusable
	case float64(lost) > overload*float64(len(stream)):
		return Increasing
	case coalesced([]Train{stream}, gaps) >= tooCloseShare && lost == 0:
		return Unusable
	}
	return trend(groupMedians(delays))
}

// trend combines both tests: one must decide and the other must not contradict it.
func trend(medians []float64) Trend {
	increases, change := 0, 0.0
	for i, m := range medians[1:] {
		if m > medians[i] {
			increases++
		}
		change += math.Abs(m - medians[i])
	}
	pct, pdt := float64(increases)/float64(len(medians)-1), 0.0
	if change > 0 {
		pdt = (medians[len(medians)-1] - medians[0]) / change
	}
	up, down := 0, 0
	for _, test := range []struct{ value, increasing, nonIncreasing float64 }{
		{pct, increasingPCT, nonIncreasingPCT}, {pdt, increasingPDT, nonIncreasingPDT},
	} {
		switch {
		case test.value > test.increasing:
			up++
		case test.value < test.nonIncreasing:
			down++
		}
	}
	switch {
	case up > 0 && down == 0:
		return Increasing
	case down > 0 && up == 0:
		return NonIncreasing
	}
	return Ambiguous
}

// groupMedians are the medians of consecutive groups of delays.
func groupMedians(delays []float64) []float64 {
	size := int(math.Sqrt(float64(len(delays))))
	var medians []float64
	for len(delays) >= size {
		medians = append(medians, median(delays[:size]))
		delays = delays[size:]
	}
	return medians
}

// steady reports whether both halves of the stream were sent at nearly the same rate.
func steady(stream Train) bool {
	half := len(stream) / 2
	first, second := sendingRate(stream[:half+1]), sendingRate(stream[half:])
	return min(first, second) > 0 && math.Abs(first-second) <= steadiness*max(first, second)
}

// sendingRate in bit/s; 0 if no time passed.
func sendingRate(stream Train) float64 {
	var bytes int64
	for _, p := range stream[1:] {
		bytes += int64(p.Size)
	}
	passed := stream[len(stream)-1].SentNS - stream[0].SentNS
	if passed <= 0 || bytes < 0 {
		return 0
	}
	return float64(bytes) * 8e9 / float64(passed)
}

// RateTrend counts the trends of the streams of one rate.
type RateTrend struct {
	// Rate in bit/s at which the streams were sent, in the mean.
	Rate          float64 `json:"rate"`
	Increasing    int     `json:"increasing"`
	NonIncreasing int     `json:"non_increasing"`
	Ambiguous     int     `json:"ambiguous"`
	Unusable      int     `json:"unusable"`
}

// majority of the decided and ambiguous streams of a rate that must agree.
const majority = 0.7

// Agreed is the trend of most streams; ambiguous if they disagree.
func (r RateTrend) Agreed() Trend {
	enough := majority * float64(r.Increasing+r.NonIncreasing+r.Ambiguous)
	switch {
	case r.Increasing > 0 && float64(r.Increasing) >= enough:
		return Increasing
	case r.NonIncreasing > 0 && float64(r.NonIncreasing) >= enough:
		return NonIncreasing
	}
	return Ambiguous
}

// Available is the available bandwidth of a path.
type Available struct {
	// Low and High in bit/s enclose the available bandwidth, or the range over which it
	// varied: streams at Low passed, those at High built up a queue. 0 is no bound.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Valid says that both bounds were found and no assumption was contradicted.
	Valid    bool        `json:"valid"`
	Rates    []RateTrend `json:"rates"`
	Findings []Finding   `json:"findings"`
}

// EstimateAvailable estimates the available bandwidth by self-loading periodic streams
// (SLoPS): a stream sent faster than the available bandwidth has increasing one-way delays.
// Several streams of each of several rates are expected, of which 70 % must agree. It
// assumes a path whose queue is first in, first out, and takes the available bandwidth as
// the mean over about the length of a stream: with bursty cross traffic the range is wide.
func EstimateAvailable(streams []Train) Available {
	a := Available{Rates: rateTrends(streams)}
	slowestStopped, fastestPassed := math.Inf(1), 0.0
	unusable, all := 0, 0
	for _, r := range a.Rates {
		unusable, all = unusable+r.Unusable, all+r.Unusable+r.Increasing+r.NonIncreasing+r.Ambiguous
		switch r.Agreed() {
		case Increasing:
			slowestStopped = min(slowestStopped, r.Rate)
		case NonIncreasing:
			fastestPassed = max(fastestPassed, r.Rate)
		}
	}
	for _, r := range slices.Backward(a.Rates) {
		switch r.Agreed() {
		case Increasing:
			if r.Rate > fastestPassed {
				a.High = r.Rate
			}
		case NonIncreasing:
			if r.Rate < slowestStopped {
				a.Low = max(a.Low, r.Rate)
			}
		}
	}
	if fastestPassed > slowestStopped {
		a.Findings = append(a.Findings, finding(ConsistentTrends, false,
			"streams of %s built up a queue, faster ones of %s did not: the available bandwidth varied",
			Bits(slowestStopped), Bits(fastestPassed)))
	}
	if 2*unusable > all {
		a.Findings = append(a.Findings, finding(SteadySending, true,
			"%d of %d streams were too short, not sent at one rate, or arrived in bunches", unusable, all))
	}
	a.Valid = valid(a.Findings) && a.Low > 0 && a.High > 0
	return a
}

// sameRate is the relative difference up to which streams count as sent at one rate.
const sameRate = 0.03

// rateTrends counts the trends of the streams by their rate, in its order.
func rateTrends(streams []Train) []RateTrend {
	type sent struct {
		rate  float64
		trend Trend
	}
	var all []sent
	for _, s := range streams {
		if len(s) > 1 {
			all = append(all, sent{sendingRate(s), TrendOf(s)})
		}
	}
	slices.SortFunc(all, func(a, b sent) int { return cmp.Compare(a.rate, b.rate) })
	var rates []RateTrend
	for first := 0; first < len(all); {
		var r RateTrend
		last := first
		for ; last < len(all) && all[last].rate <= all[first].rate*(1+sameRate); last++ {
			r.Rate += all[last].rate
			switch all[last].trend {
			case Increasing:
				r.Increasing++
			case NonIncreasing:
				r.NonIncreasing++
			case Ambiguous:
				r.Ambiguous++
			default:
				r.Unusable++
			}
		}
		r.Rate /= float64(last - first)
		rates = append(rates, r)
		first = last
	}
	return rates
}
