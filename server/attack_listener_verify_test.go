//go:build verify

package server_test

import "testing"

// TestVerifyMalformedRequests: more of them.
func TestVerifyMalformedRequests(t *testing.T) { malformedRequests(t, 20_000) }
