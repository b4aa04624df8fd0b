package histogram

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestShift compares a shifted histogram with that of the shifted values: counts are equal, quantiles apart by
// no more than the bucket of the values before.
func TestShift(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for _, shift := range []int64{0, 1, -1, 2_000_000, -2_000_000, 5_100_000, 1e9} {
		var before, want Histogram
		least, most := int64(math.MaxInt64), int64(math.MinInt64)
		for range 1000 {
			v := int64(5e6 + r.ExpFloat64()*3e5)
			before.Add(v)
			want.Add(v - shift)
			least, most = min(least, v), max(most, v)
		}
		got := before.Shift(shift, least, most)
		if err := got.Validate(); err != nil || got.Total() != 1000 {
			t.Fatalf("shift by %d: %d values, %v", shift, got.Total(), err)
		}
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			was := before.Quantile(q, float64(least), float64(most))
			a, b := got.Quantile(q, float64(least-shift), float64(most-shift)), want.Quantile(q, float64(least-shift), float64(most-shift))
			if math.Abs(a-b) > float64(Width(Index(int64(was)))+Width(Index(int64(b)))) {
				t.Errorf("shift by %d: quantile %g is %g, want %g", shift, q, a, b)
			}
		}
	}
}

func TestShiftAtTheExtremes(t *testing.T) {
	for _, v := range []int64{math.MinInt64, -1, 0, math.MaxInt64} {
		for _, shift := range []int64{math.MinInt64, -1, 1, math.MaxInt64} {
			var h Histogram
			h.AddBucket(Bound(Index(v)), 3)
			got := h.Shift(shift, v, v)
			if err := got.Validate(); err != nil || got.Total() != 3 {
				t.Errorf("%d minus %d: %+v, %v", v, shift, got, err)
			}
		}
	}
	for _, row := range []struct{ a, b, want int64 }{
		{5, 3, 2}, {math.MinInt64, 1, math.MinInt64}, {math.MaxInt64, -1, math.MaxInt64}, {0, math.MinInt64, math.MaxInt64}, {-1, math.MinInt64, math.MaxInt64},
	} {
		if got := Minus(row.a, row.b); got != row.want {
			t.Errorf("%d - %d = %d, want %d", row.a, row.b, got, row.want)
		}
	}
}
