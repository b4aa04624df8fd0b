//go:build amd64 || arm64

package confine

import (
	"slices"
	"testing"
)

// TestFilterFits: no system call is listed twice.
func TestFilterFits(t *testing.T) {
	for i, call := range allowed {
		if slices.Contains(allowed[:i], call) {
			t.Errorf("system call %d is listed twice", call)
		}
		if _, both := limited()[call]; both {
			t.Errorf("system call %d is both allowed and limited", call)
		}
	}
}
