//go:build long

package lab_test

import "testing"

// TestLongServiceCountsTheTruth: delays rest on as many packets as the session stamps, one in 100.
func TestLongServiceCountsTheTruth(t *testing.T) { serviceCountsTheTruth(t, "100") }
