//go:build long

package lab_test

import "testing"

// TestLongProbesCountTheTruth: a million packets.
func TestLongProbesCountTheTruth(t *testing.T) { probesCountTheTruth(t, 51200) }

// TestLongNetworkCut: the network is cut for a minute.
func TestLongNetworkCut(t *testing.T) { networkCut(t, 30_000, "agent-b") }
