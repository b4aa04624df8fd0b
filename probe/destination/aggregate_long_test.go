//go:build long

package destination

import "testing"

// TestLongAggregationMismatch: the other combinations.
func TestLongAggregationMismatch(t *testing.T) { aggregationMismatch(t, true) }
