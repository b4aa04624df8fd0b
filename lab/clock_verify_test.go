//go:build verify

package lab_test

import (
	"testing"

	"pillion.dev/internal/test/figure"
)

// TestVerifySkewIsRemoved: the bound is half of the round trip of 5 ms, and what the minima miss of it.
func TestVerifySkewIsRemoved(t *testing.T) {
	skewIsRemoved(t, func(t testing.TB, direction string, residual, bound float64) {
		figure.AtMost(t, t.Name()+", "+direction+", residual error of delay variation", residual/1e3, 10, "µs")
		figure.AtMost(t, t.Name()+", "+direction+", bound on the offset", bound/1e6, 4, "ms")
	})
}
