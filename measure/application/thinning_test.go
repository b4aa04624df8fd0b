package application

import (
	"testing"
	"time"
)

// TestThinningPolicy: the requested fraction as the fill level of the queue rises and falls.
func TestThinningPolicy(t *testing.T) {
	var policy Thinning
	begun := time.Unix(0, 0)
	for i, row := range []struct {
		at    int // s
		share float64
		want  int
	}{
		{0, 0, 1}, {1, 0.5, 1}, {2, 0.51, 2}, {3, 0.9, 2}, {11, 0.9, 2}, {12, 0.9, 4}, {22, 0.9, 8}, {40, 0.4, 8}, {41, 0.25, 8},
		{42, 0.1, 4}, {43, 0.1, 4}, {52, 0.1, 2}, {62, 0.1, 1}, {72, 0.1, 1}, {73, 0.6, 2},
	} {
		before := policy.N()
		changed := policy.Step(begun.Add(time.Duration(row.at)*time.Second), row.share)
		if policy.N() != row.want || changed != (before != row.want) {
			t.Errorf("row %d: %d, changed %v, want %d", i, policy.N(), changed, row.want)
		}
	}
	for i := range 100 {
		policy.Step(begun.Add(time.Duration(100+10*i)*time.Second), 1)
	}
	if policy.N() != 1024 {
		t.Errorf("%d after many steps, want the limit", policy.N())
	}
}
