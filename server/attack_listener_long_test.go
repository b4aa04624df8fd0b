//go:build long

package server_test

import "testing"

// TestLongMalformedRequests: more of them.
func TestLongMalformedRequests(t *testing.T) { malformedRequests(t, 20_000) }
