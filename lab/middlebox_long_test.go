//go:build long

package lab_test

import "testing"

// TestLongTCPOptionIsDroppedOnTheWay: the other rows.
func TestLongTCPOptionIsDroppedOnTheWay(t *testing.T) {
	t.Parallel() // it mostly waits
	droppedOnTheWay(t, true)
}

// TestLongTCPOptionIsStripped: the other combinations.
func TestLongTCPOptionIsStripped(t *testing.T) {
	t.Parallel() // it mostly waits
	strippedOnTheWay(t, true)
}
