package answer

import (
	"testing"
	"time"
)

// TestLongest: late rows of a busy host do not widen the windows, another interval does.
func TestLongest(t *testing.T) {
	for _, test := range []struct {
		name  string
		units map[int64]int64 // tenths of a second to rows
		want  time.Duration
	}{
		{"none", nil, 0},
		{"one", map[int64]int64{9: 100}, 900 * time.Millisecond},
		{"some a little longer", map[int64]int64{9: 30, 11: 3}, 900 * time.Millisecond},
		{"many a little longer", map[int64]int64{9: 30, 11: 9}, 1100 * time.Millisecond},
		{"a host slept once", map[int64]int64{9: 10_000, 600: 1}, 900 * time.Millisecond},
		{"the interval was changed", map[int64]int64{9: 950, 90: 5}, 9 * time.Second},
		{"shorter ones", map[int64]int64{1: 50, 9: 100}, 900 * time.Millisecond},
	} {
		if got := longest(test.units); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
