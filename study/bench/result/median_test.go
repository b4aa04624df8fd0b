package result

import (
	"slices"
	"testing"
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
			if got := Median(test.values); got != test.want {
				t.Errorf("Median(%v) = %g, want %g", test.values, got, test.want)
			}
			if !slices.Equal(before, test.values) {
				t.Errorf("Median changed its argument to %v", test.values)
			}
		})
	}
}
