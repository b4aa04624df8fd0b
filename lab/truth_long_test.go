//go:build long

package lab_test

import "testing"

// TestLongProbesCountTheTruth: a million packets.
func TestLongProbesCountTheTruth(t *testing.T) { probesCountTheTruth(t, 51200) }

// TestLongAddressTranslation: half a million packets through connection tracking.
func TestLongAddressTranslation(t *testing.T) { addressTranslation(t, 250_000) }

// TestLongNetworkCut: the network is cut for a minute.
func TestLongNetworkCut(t *testing.T) { networkCut(t, 30_000, "agent-b") }

// TestLongForgedMarks: a million of them.
func TestLongForgedMarks(t *testing.T) { forgedMarks(t, 1_000_000) }
