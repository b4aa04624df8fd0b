package main

import "math"

func total(bins []uint64) (sum uint64) {
	for _, n := range bins {
		sum += n
	}
	return sum
}

// distance is the two-sample Kolmogorov-Smirnov statistic: the largest difference
// of the two cumulative relative frequencies, 0 to 1. With hundreds of thousands of
// packets every difference is significant; the distance itself is the effect size.
func distance(a, b []uint64) float64 {
	return largest(a, b, func(int) float64 { return 1 }, math.Max)
}

// shift is the Wasserstein distance: how far the packets of one histogram have to be moved,
// on average, to get the other, in the unit of the bins' widths.
func shift(a, b []uint64, width func(i int) float64) float64 {
	return largest(a, b, width, func(sum, x float64) float64 { return sum + x })
}

// largest folds the differences of the cumulative relative frequencies, each times the
// weight of its bin.
func largest(a, b []uint64, weight func(i int) float64, fold func(x, y float64) float64) float64 {
	of, in := float64(max(total(a), 1)), float64(max(total(b), 1))
	var low, high, result float64
	for i := range max(len(a), len(b)) {
		if i < len(a) {
			low += float64(a[i]) / of
		}
		if i < len(b) {
			high += float64(b[i]) / in
		}
		result = fold(result, math.Abs(low-high)*weight(i))
	}
	return result
}

// Peaks are distinguished from noise by their share and by the valleys between them.
const (
	peakShare  = 0.005 // of all packets, in its bin
	valleyDeep = 0.5   // of the lower of two peaks
)

// peaks returns the local maxima of a histogram that have a minimum share, where between
// two of them lies a bin with at most half of the lower one.
func peaks(bins []uint64) []int {
	least := max(uint64(peakShare*float64(total(bins))), 1)
	var found []int
	valley := uint64(0) // lowest bin since the last peak
	for i, n := range bins {
		if len(found) == 0 {
			if n >= least {
				found, valley = append(found, i), n
			}
			continue
		}
		last := found[len(found)-1]
		valley = min(valley, n)
		switch {
		case n >= least && float64(valley) <= valleyDeep*float64(min(n, bins[last])):
			found, valley = append(found, i), n
		case n > bins[last]:
			found[len(found)-1], valley = i, n
		}
	}
	return found
}

// spreadOf returns the mean and the coefficient of variation of a histogram, in bins.
func spreadOf(bins []uint64) (mean, variation float64) {
	n := float64(total(bins))
	if n == 0 {
		return 0, 0
	}
	var sum, squares float64
	for i, count := range bins {
		sum += float64(i) * float64(count)
		squares += float64(i) * float64(i) * float64(count)
	}
	mean = sum / n
	if mean == 0 {
		return 0, 0
	}
	return mean, math.Sqrt(max(squares/n-mean*mean, 0)) / mean
}

// below returns the share of a histogram in its first bins.
func below(bins []uint64, first int) float64 {
	return float64(total(bins[:min(first, len(bins))])) / float64(max(total(bins), 1))
}
