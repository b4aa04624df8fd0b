//go:build long

package lane_test

import (
	"testing"
	"time"
)

// TestLongLedgerWithoutFence: the same finds what the fence is for.
func TestLongLedgerWithoutFence(t *testing.T) {
	f := startFleet(t, newShelf(false, 4*leaseTTL), 12)
	end := time.Now().Add(2 * time.Minute)
	f.run(func(int) bool { return f.shelf.twice() != 0 || time.Now().After(end) })
	if f.shelf.twice() == 0 {
		t.Error("without the fence nothing was stored twice: the test proves nothing")
	}
}
