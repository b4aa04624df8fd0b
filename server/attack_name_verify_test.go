//go:build verify

package server_test

import "testing"

// TestVerifyQueriesAreBounded: a hundred of them at once.
func TestVerifyQueriesAreBounded(t *testing.T) { queriesAreBounded(t, 100) }
