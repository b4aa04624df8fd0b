//go:build long

package lab_test

import "testing"

// TestLongPathValidationOfCards: the other combinations of cards, IP versions and destinations.
func TestLongPathValidationOfCards(t *testing.T) {
	t.Parallel() // it mostly waits
	pathValidationOfCards(t, true)
}
