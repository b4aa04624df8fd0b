//go:build verify

package duckdb

import "testing"

// TestVerifyArrivals: more rounds.
func TestVerifyArrivals(t *testing.T) { everyRowArrivesOnce(t, 60) }
