package verdict

import (
	"math"
	"testing"
)

func TestOf(t *testing.T) {
	none, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		name                   string
		low, high, least, most float64
		want                   Verdict
	}{
		{"above", 0.94, 0.96, 0.93, inf, Met},
		{"exactly", 0.93, 0.96, 0.93, inf, Met},
		{"across", 0.92, 0.96, 0.93, inf, Undecided},
		{"below", 0.90, 0.92, 0.93, inf, Missed},
		{"at most: below", 90, 105, -inf, 110, Met},
		{"at most: exactly", 90, 110, -inf, 110, Met},
		{"at most: across", 100, 120, -inf, 110, Undecided},
		{"at most: above", 115, 120, -inf, 110, Missed},
		{"within", 0.98, 1.02, 0.95, 1.05, Met},
		{"wider than the target", 0.9, 1.1, 0.95, 1.05, Undecided},
		{"a value", 2, 2, 2, inf, Met},
		{"unknown", none, none, 0.93, inf, Undecided},
		{"half known", 0.5, none, -inf, 0.4, Missed},
		{"any", -inf, inf, 0, 1, Undecided},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Of(test.low, test.high, test.least, test.most); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
