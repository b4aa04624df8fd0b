//go:build long

package lab_test

import "testing"

// TestLongProbesCountTheTruth: the encodings that the short test leaves out.
func TestLongProbesCountTheTruth(t *testing.T) {
	for name, row := range truthRows {
		if row.long {
			t.Run(name, func(t *testing.T) { row.check(t, 25_600) })
		}
	}
}

// TestLongNetworkCut: the network is cut for a minute.
func TestLongNetworkCut(t *testing.T) {
	t.Parallel() // it mostly waits
	networkCut(t, 30_000, "agent-b")
}
