package result

import (
	"math"
	"slices"
)

// Sample has all values of one run, in ns, sorted. What is computed of it is exact.
type Sample []int64

// NewSample sorts the values, in place.
func NewSample(values []int64) Sample {
	slices.Sort(values)
	return values
}

// Quantile is the value below or at which a share q of all are (nearest rank).
func (s Sample) Quantile(q float64) float64 {
	return float64(s[max(int(math.Ceil(q*float64(len(s))))-1, 0)])
}

// Moments returns the mean and the coefficient of variation.
func (s Sample) Moments() (mean, variation float64) {
	for _, v := range s {
		mean += float64(v) / float64(len(s))
	}
	var squares float64
	for _, v := range s {
		squares += (float64(v) - mean) * (float64(v) - mean) / float64(len(s))
	}
	if mean == 0 {
		return 0, 0
	}
	return mean, math.Sqrt(squares) / mean
}

// Put writes the figures of the sample, in microseconds, under names that begin with one.
func (s Sample) Put(into Result, name string) {
	if len(s) == 0 {
		return
	}
	mean, variation := s.Moments()
	into[name+"_min_us"], into[name+"_max_us"], into[name+"_mean_us"] = US(float64(s[0])), US(float64(s[len(s)-1])), US(mean)
	for label, q := range map[string]float64{"p5": 0.05, "p50": 0.5, "p95": 0.95, "p99": 0.99} {
		into[name+"_"+label+"_us"] = US(s.Quantile(q))
	}
	into[name+"_cv"] = variation
	if median := s.Quantile(0.5); median > 0 {
		// Unlike the variation, this does not depend on the few values of a preempted router.
		into[name+"_spread"] = (s.Quantile(0.95) - s.Quantile(0.05)) / median
	}
}

// US is a time in microseconds.
func US(ns float64) float64 { return ns / 1e3 }

// Bin of a histogram.
type Bin struct {
	At, Width int64 // lower bound
	Count     uint64
}

// linear is the number of bins of the least width with which a histogram begins; half as many
// of each double width follow, so that none is wider than 1/32 of what it holds.
const linear = 64

// Histogram counts all values, from the least to the largest: none is cut off. Bins without
// values are not listed.
func (s Sample) Histogram(width int64) (bins []Bin) {
	for _, v := range s {
		w := width
		for v >= linear*w {
			w *= 2
		}
		at := v / w * w
		if len(bins) == 0 || bins[len(bins)-1].At != at {
			bins = append(bins, Bin{At: at, Width: w})
		}
		bins[len(bins)-1].Count++
	}
	return bins
}

// Within is the share of the values that are at most a bound.
func (s Sample) Within(bound int64) float64 {
	n, _ := slices.BinarySearch(s, bound+1)
	return float64(n) / float64(max(len(s), 1))
}
