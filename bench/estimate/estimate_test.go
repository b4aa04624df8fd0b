package estimate_test

import (
	"math"
	"slices"
	"testing"

	"pillion.dev/bench/estimate"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"none", nil, 0},
		{"one", []float64{3}, 3},
		{"odd", []float64{9, 1, 5}, 5},
		{"even", []float64{4, 1, 3, 2}, 2.5},
		{"an outlier does not move it", []float64{1, 1, 1, 1e9}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := slices.Clone(test.values)
			if got := estimate.Median(test.values); got != test.want {
				t.Errorf("Median(%v) = %g, want %g", test.values, got, test.want)
			}
			if !slices.Equal(before, test.values) {
				t.Errorf("Median changed its argument to %v", test.values)
			}
		})
	}
}

// The oracle of the coverage is the table of binomial probabilities with p = 1/2.
func TestEstimate(t *testing.T) {
	for _, test := range []struct {
		name       string
		values     int
		low, high  float64
		confidence float64
	}{
		{"one", 1, 1, 1, 0},
		{"five do not decide", 5, 1, 5, 0.9375},
		{"six", 6, 1, 6, 0.96875},
		{"nine", 9, 2, 8, 0.9609375},
		{"twelve", 12, 3, 10, 0.96142578125},
		{"twenty", 20, 6, 15, 0.9586105346679688},
	} {
		t.Run(test.name, func(t *testing.T) {
			var values []float64
			for i := range test.values {
				values = append(values, float64(test.values-i))
			}
			e := estimate.Of(values)
			if e.Low != test.low || e.High != test.high || e.Confidence != test.confidence || e.Values != test.values {
				t.Errorf("got %+v, want %g..%g with %g", e, test.low, test.high, test.confidence)
			}
			if e.IsDecisive() != (test.values >= 6) {
				t.Errorf("%d values decide: %t", test.values, e.IsDecisive())
			}
		})
	}
	if e := estimate.Of(nil); e != (estimate.Estimate{}) || e.IsDecisive() {
		t.Errorf("no values give %+v", e)
	}
}

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		name      string
		low, high float64
		values    int
		target    float64
		atMost    bool
		want      estimate.Verdict
	}{
		{"above", 0.94, 0.96, 9, 0.93, false, estimate.Met},
		{"exactly", 0.93, 0.96, 9, 0.93, false, estimate.Met},
		{"across", 0.92, 0.96, 9, 0.93, false, estimate.Undecided},
		{"below", 0.90, 0.92, 9, 0.93, false, estimate.Missed},
		{"above, but too few", 0.94, 0.96, 5, 0.93, false, estimate.Undecided},
		{"below, but too few", 0.90, 0.92, 5, 0.93, false, estimate.Undecided},
		{"at most: below", 90, 105, 9, 110, true, estimate.Met},
		{"at most: exactly", 90, 110, 9, 110, true, estimate.Met},
		{"at most: across", 100, 120, 9, 110, true, estimate.Undecided},
		{"at most: above", 115, 120, 9, 110, true, estimate.Missed},
		{"no values", 0, 0, 0, 0.93, false, estimate.Undecided},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := estimate.Estimate{Low: test.low, High: test.high, Values: test.values}
			e.Confidence = 1 - math.Pow(2, 1-float64(test.values))
			verdict := e.AtLeast
			if test.atMost {
				verdict = e.AtMost
			}
			if got := verdict(test.target); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
