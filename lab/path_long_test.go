//go:build long

package lab_test

import (
	"testing"
	"time"
)

// TestLongNarrowPathWithLoss: retransmissions of segments that are lost for other reasons than
// their size do not stop marks for good.
func TestLongNarrowPathWithLoss(t *testing.T) {
	t.Parallel() // it mostly waits
	narrowPath(t, "native", "fd77:0:0:2::2", "", lossy, 30*time.Second)
}

// TestLongNarrowPathWithoutICMP: the other rows.
func TestLongNarrowPathWithoutICMP(t *testing.T) {
	t.Parallel() // it mostly waits
	narrowPathWithoutICMP(t, true)
}
