//go:build long

package bus_test

import (
	"testing"

	"pillion.dev/bus/bustest"
)

// TestLongNodesFail: each node fails in turn, whichever of them leads the bucket.
func TestLongNodesFail(t *testing.T) {
	c := bustest.Start(t, t.TempDir())
	testNodesFail(t, c, connect(t, c), bustest.Nodes)
}
