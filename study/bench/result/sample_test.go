package result

import (
	"math"
	"slices"
	"testing"
)

// Oracle: values small enough to compute by hand.
func TestSample(t *testing.T) {
	r := Result{}
	NewSample([]int64{4000, 1000, 3000, 2000}).Put(r, "x")
	for name, want := range map[string]float64{
		"x_min_us": 1, "x_max_us": 4, "x_mean_us": 2.5, "x_p5_us": 1, "x_p50_us": 2, "x_p95_us": 4, "x_p99_us": 4,
		"x_cv": math.Sqrt(1.25) / 2.5, "x_spread": 1.5,
	} {
		if got, _ := r[name].(float64); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s is %v, want %v", name, r[name], want)
		}
	}
	none := Result{}
	NewSample(nil).Put(none, "x")
	if len(none) > 0 {
		t.Errorf("no values give %v", none)
	}
}

// A histogram counts every value in a bin that holds it, wherever it lies.
func TestHistogramIsComplete(t *testing.T) {
	for name, values := range map[string][]int64{
		"none": nil, "zero": {0, 0}, "at the first double width": {63_999, 64_000, 65_999, 66_000},
		"far": {1, 999, 1000, 5_000_000, 3_600_000_000_000}, "largest": {math.MaxInt64 / 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSample(slices.Clone(values))
			bins := s.Histogram(1000)
			var total uint64
			for i, b := range bins {
				if total += b.Count; b.Count == 0 || i > 0 && b.At < bins[i-1].At+bins[i-1].Width {
					t.Errorf("bin %+v behind %+v", b, bins[max(i-1, 0)])
				}
			}
			if total != uint64(len(values)) {
				t.Errorf("%d of %d values in %v", total, len(values), bins)
			}
			for _, v := range values {
				if !slices.ContainsFunc(bins, func(b Bin) bool { return b.At <= v && v < b.At+b.Width && b.Width <= max(1000, b.At/16) }) {
					t.Errorf("%d lies in no narrow bin of %v", v, bins)
				}
			}
		})
	}
}
