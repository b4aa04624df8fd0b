// Package figure states what a test measured beside its target. `make verify` collects these lines in one table.
package figure

import (
	"math"
	"testing"
)

// Prefix begins a line of the table in a test's log.
const Prefix = "figure: "

// AtMost logs a value and, in make verify (build tag verify), fails the test if its magnitude exceeds the target. Both are
// in the unit. Elsewhere a figure depends on what else the machine does, and proves nothing.
func AtMost(t testing.TB, what string, value, target float64, unit string) {
	t.Helper()
	verdict := "met"
	if !(math.Abs(value) <= target) {
		verdict = "missed"
	}
	t.Logf("%s%s | %.4g %s | at most %g %s | %s", Prefix, what, value, unit, target, unit, verdict)
	if asserted && verdict == "missed" {
		t.Errorf("%s is %.4g %s, want at most %g %s", what, value, unit, target, unit)
	}
}
