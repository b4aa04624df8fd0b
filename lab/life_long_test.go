//go:build long

package lab_test

import "testing"

// TestLongDownAfterUpIsKilled: at the other stages.
func TestLongDownAfterUpIsKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	downAfterUpIsKilled(t, true)
}
