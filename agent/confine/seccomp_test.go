//go:build amd64 || arm64

package confine

import (
	"slices"
	"testing"
)

// TestFilterFits: the filter is within the kernel's limit, and jumps within its program.
func TestFilterFits(t *testing.T) {
	if n := len(program()); n > 4096 {
		t.Errorf("%d instructions, limit 4096", n)
	}
	for i, call := range allowed {
		if slices.Contains(allowed[:i], call) {
			t.Errorf("system call %d is listed twice", call)
		}
		if _, both := limited()[call]; both {
			t.Errorf("system call %d is both allowed and limited", call)
		}
	}
}
