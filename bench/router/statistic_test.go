package main

import (
	"math"
	"slices"
	"testing"
)

func TestPeaks(t *testing.T) {
	for name, c := range map[string]struct {
		bins []uint64
		want []int
	}{
		"none":              {nil, nil},
		"one":               {[]uint64{0, 10, 50, 20}, []int{2}},
		"two":               {[]uint64{0, 50, 10, 40}, []int{1, 3}},
		"no valley":         {[]uint64{0, 50, 30, 40}, []int{1}},
		"higher behind":     {[]uint64{10, 9, 8, 50}, []int{3}},
		"too few in it":     {[]uint64{1000, 0, 2}, []int{0}},
		"three":             {[]uint64{30, 0, 20, 0, 0, 9}, []int{0, 2, 5}},
		"second is higher":  {[]uint64{0, 10, 3, 40, 50, 3}, []int{1, 4}},
		"rising to the end": {[]uint64{1, 2, 3}, []int{2}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := peaks(c.bins); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Oracle: histograms small enough to compute by hand.
func TestDistances(t *testing.T) {
	for name, c := range map[string]struct {
		a, b            []uint64
		distance, shift float64
	}{
		"same":             {[]uint64{1, 2}, []uint64{2, 4}, 0, 0},
		"one bin on":       {[]uint64{5}, []uint64{0, 7}, 1, 1},
		"three bins on":    {[]uint64{5}, []uint64{0, 0, 0, 7}, 1, 3},
		"half, two bins":   {[]uint64{2}, []uint64{1, 0, 1}, 0.5, 1},
		"there and beyond": {[]uint64{1, 0, 1}, []uint64{0, 2}, 0.5, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := distance(c.a, c.b); math.Abs(got-c.distance) > 1e-12 {
				t.Errorf("distance %v, want %v", got, c.distance)
			}
			if got := shift(c.a, c.b, func(int) float64 { return 1 }); math.Abs(got-c.shift) > 1e-12 {
				t.Errorf("shift %v, want %v", got, c.shift)
			}
		})
	}
}

func TestSizesHaveThePapersMoments(t *testing.T) {
	for _, c := range []struct {
		sizes
		mean, deviation float64
	}{{constant(550), 550, 0}, {gaussian, 600, 200}, {pareto, 600, 600.0 / math.Sqrt(120)}} {
		t.Run(c.name, func(t *testing.T) {
			var sum, squares float64
			all := c.series(150_000, 1)
			for _, n := range all {
				sum += float64(n)
				squares += float64(n) * float64(n)
			}
			mean := sum / float64(len(all))
			deviation := math.Sqrt(squares/float64(len(all)) - mean*mean)
			if math.Abs(mean-c.mean) > 3 || math.Abs(deviation-c.deviation) > 3 {
				t.Errorf("mean %.1f, deviation %.1f; want %.1f, %.1f", mean, deviation, c.mean, c.deviation)
			}
		})
	}
}
