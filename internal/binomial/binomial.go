// Package binomial has the exact interval of a share: what a count of bad packets says about the rate behind it.
//
// It takes packets for independent of each other; losses in bursts say less than it assumes.
package binomial

import (
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is the interval of Clopper and Pearson for k of n, which need not be whole, with a tail on each side.
func Interval(k, n, tail float64) (low, high float64) {
	high = 1
	if k > 0 {
		low = distuv.Beta{Alpha: k, Beta: n - k + 1}.Quantile(tail)
	}
	if k < n {
		high = distuv.Beta{Alpha: k + 1, Beta: max(n-k, 1e-9)}.Quantile(1 - tail)
	}
	return low, high
}

// Compare reports whether the Interval is above or below a share, at a tenth of the cost of its ends.
func Compare(k, n, share, tail float64) (above, below bool) {
	return k > 0 && mathext.RegIncBeta(k, n-k+1, share) < tail, k < n && mathext.RegIncBeta(k+1, n-k, share) > 1-tail
}
