//go:build long

package server_test

import "testing"

// TestLongQueriesAreBounded: a hundred of them at once.
func TestLongQueriesAreBounded(t *testing.T) { queriesAreBounded(t, 100) }
