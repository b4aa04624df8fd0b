//go:build verify

package router

import "testing"

// TestVerifyAccountOfAMillionPackets: none of them is outside the account.
func TestVerifyAccountOfAMillionPackets(t *testing.T) {
	for name, address := range families {
		t.Run(name, func(t *testing.T) { accountOf(t, address, 1_000_000) })
	}
}
