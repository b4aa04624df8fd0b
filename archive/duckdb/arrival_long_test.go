//go:build long

package duckdb

import "testing"

// TestLongArrivals: more rounds.
func TestLongArrivals(t *testing.T) { everyRowArrivesOnce(t, 60) }
