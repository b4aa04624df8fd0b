package binomial

import (
	"math"
	"testing"
)

// TestInterval: the oracle is R's binom.test, and for no success of n the closed form 1 - tail^(1/n).
func TestInterval(t *testing.T) {
	for _, row := range []struct{ k, n, tail, low, high float64 }{
		{2, 10, 0.025, 0.02521073, 0.5560955},
		{0, 100, 0.025, 0, 1 - math.Pow(0.025, 0.01)},
		{100, 100, 0.005, math.Pow(0.005, 0.01), 1},
	} {
		low, high := Interval(row.k, row.n, row.tail)
		if math.Abs(low-row.low) > 1e-7 || math.Abs(high-row.high) > 1e-7 {
			t.Errorf("%g of %g: %v to %v, want %v to %v", row.k, row.n, low, high, row.low, row.high)
		}
	}
}

// TestCompare: it agrees with the interval.
func TestCompare(t *testing.T) {
	for _, n := range []float64{1, 100, 170, 5000} {
		for k := 0.0; k <= n; k += max(1, n/200) {
			for _, share := range []float64{0.001, 0.01, 0.5} {
				low, high := Interval(k, n, 0.005)
				if above, below := Compare(k, n, share, 0.005); above != (low > share) || below != (high < share) {
					t.Errorf("%g of %g and %g: %v, %v; interval %v to %v", k, n, share, above, below, low, high)
				}
			}
		}
	}
}
