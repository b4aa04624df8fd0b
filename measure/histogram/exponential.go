package histogram

import (
	"math"
	"slices"
)

// ExponentialScale is the scale of Exponential: 2^5 buckets per octave, as many as a Histogram has. Prometheus
// calls it the schema.
const ExponentialScale = 5

// ExponentialError bounds the relative error of a quantile of an Exponential whose values are below 2^wideOctave
// ns (68.7 s): a value differs from the middle of its bucket by at most 1/64, and any place in an exponential
// bucket from any other by at most a factor of 2^(1/32). From there on it is ExponentialWideError.
const (
	ExponentialError     = 0.038
	ExponentialWideError = 0.54
)

// ExponentialZero is the threshold of the zero bucket in seconds: only the value 0 ns is below it.
const ExponentialZero = 0.5e-9

// Exponential is a Histogram, in seconds, in the form of Prometheus's native histograms and of OpenTelemetry's
// exponential ones. Each bucket of a Histogram counts whole in the exponential bucket of its middle. The bucket
// never depends on other values: counts of a growing Histogram only grow.
type Exponential struct {
	Zero uint64
	// Positive and Negative are the buckets that are not empty, by ascending index.
	Positive, Negative []ExponentialBucket
}

// ExponentialBucket counts values whose magnitude is above 2^(Index/32) s and at most 2^((Index+1)/32) s.
type ExponentialBucket struct {
	Index int32
	Count uint64
}

// exponentials are the indices of the middles of all buckets, of which the first is the bucket of Bound(-Side).
var exponentials = func() (indices [2 * Side]int32) {
	for i := range indices {
		index := i - Side
		middle := float64(Bound(index)) + float64(Width(index)-1)/2
		if middle != 0 {
			indices[i] = int32(math.Ceil(math.Ldexp(math.Log2(math.Abs(middle)*1e-9), ExponentialScale))) - 1
		}
	}
	return indices
}()

// Exponential converts the histogram.
func (h *Histogram) Exponential() (e Exponential) {
	for i, bound := range h.Bounds {
		index := Index(bound)
		switch at := exponentials[index+Side]; {
		case index == 0:
			e.Zero = Sum(e.Zero, h.Counts[i])
		case index > 0:
			e.Positive = addExponential(e.Positive, at, h.Counts[i])
		default:
			e.Negative = addExponential(e.Negative, at, h.Counts[i])
		}
	}
	slices.Reverse(e.Negative)
	return e
}

// addExponential counts in the last bucket or a new one.
func addExponential(buckets []ExponentialBucket, index int32, n uint64) []ExponentialBucket {
	if last := len(buckets) - 1; last >= 0 && buckets[last].Index == index {
		buckets[last].Count = Sum(buckets[last].Count, n)
		return buckets
	}
	return append(buckets, ExponentialBucket{index, n})
}
