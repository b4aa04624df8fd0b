//go:build long

package lab_test

import "testing"

// TestLongAddressTranslationOfOuterHeaders: the other encodings with an outer header.
func TestLongAddressTranslationOfOuterHeaders(t *testing.T) {
	t.Parallel() // it mostly waits
	translationOfOuterHeaders(t, "shim", "ipip")
}
