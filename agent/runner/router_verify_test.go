//go:build verify

package runner

import "testing"

// TestVerifyRouterStageOfTBF: on an idle machine, 50 packets are sent before the bucket
// releases the third.
func TestVerifyRouterStageOfTBF(t *testing.T) {
	mean, deepest := stagesOfTBF(t)
	if deepest < 25 || mean["output_queuing"] < 20e6 || mean["processing"] > 1e6 {
		t.Errorf("mean times %v, largest queue %d", mean, deepest)
	}
}
