//go:build long

package runner

import "testing"

// TestLongRouterStageOfTBF: where nothing else runs, 50 packets are sent before the
// bucket lets the third go.
func TestLongRouterStageOfTBF(t *testing.T) {
	mean, deepest := stagesOfTBF(t)
	if deepest < 25 || mean["output_queuing"] < 20e6 || mean["processing"] > 1e6 {
		t.Errorf("mean times %v, %d at most waited", mean, deepest)
	}
}
