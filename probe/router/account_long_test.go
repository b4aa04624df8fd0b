//go:build long

package router

import "testing"

// TestLongAccountOfAMillionPackets: none of them is outside the account.
func TestLongAccountOfAMillionPackets(t *testing.T) {
	for name, address := range families {
		t.Run(name, func(t *testing.T) { accountOf(t, address, 1_000_000) })
	}
}
