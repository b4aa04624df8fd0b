package emulator

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The oracle is the sorted list of all values.
func TestQuantilesAreThoseOfTheSortedValues(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	tests := map[string]func() int64{
		"small":       func() int64 { return random.Int64N(1000) },
		"around 5 ms": func() int64 { return 5_000_000 + random.Int64N(400_000) },
		"any size":    func() int64 { return random.Int64() >> random.IntN(63) },
		"constant":    func() int64 { return 1_234_567 },
	}
	for name, draw := range tests {
		t.Run(name, func(t *testing.T) {
			var whole, first, second histogram
			var values []int64
			var sum int64
			for n := range 5000 {
				value := draw()
				values = append(values, value)
				sum += value
				whole.add(value)
				if n%2 == 0 {
					first.add(value)
				} else {
					second.add(value)
				}
			}
			slices.Sort(values)
			first.merge(&second)
			for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 1} {
				exact := values[int(math.Ceil(q*float64(len(values))))-1]
				got := whole.quantile(q)
				if difference := math.Abs(float64(got - exact)); difference > 0.001*float64(exact)+0.5 {
					t.Errorf("quantile %g is %d, want %d", q, got, exact)
				}
				if merged := first.quantile(q); merged != got {
					t.Errorf("quantile %g is %d, after merging %d", q, got, merged)
				}
			}
			if whole.min != values[0] || whole.max != values[len(values)-1] || whole.sum != sum {
				t.Errorf("min %d max %d sum %d", whole.min, whole.max, whole.sum)
			}
		})
	}
}

func TestHistogramEdges(t *testing.T) {
	var h histogram
	if got := h.times(); got != (Times{}) {
		t.Errorf("empty histogram gives %+v", got)
	}
	h.add(-5)
	h.add(math.MaxInt64)
	if h.min != 0 || h.quantile(1) != math.MaxInt64 {
		t.Errorf("min %d, quantile 1 is %d", h.min, h.quantile(1))
	}
	for _, value := range []uint64{0, 1, 1023, 1024, 2047, 2048, 5_000_000, 1 << 62} {
		o, slot := bucket(value)
		if got := middle(o, slot); math.Abs(float64(got)-float64(value)) > float64(value)/1024 {
			t.Errorf("%d is in the bucket of %d", value, got)
		}
	}
}
