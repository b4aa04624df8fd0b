//go:build verify

package lane_test

import "testing"

// TestVerifyLedger is TestLedger for minutes.
func TestVerifyLedger(t *testing.T) { testLedger(t, 60) }
