//go:build long

package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pillion.dev/bus"
	"pillion.dev/bus/bustest"
)

// TestLongNodesFail: each node fails in turn, whichever of them leads the bucket.
func TestLongNodesFail(t *testing.T) {
	c := bustest.Start(t, t.TempDir())
	testNodesFail(t, c, connect(t, c))
}

// testNodesFail: one node at a time is killed and restarted; values and watches survive.
func testNodesFail(t *testing.T, c *bustest.Cluster, one *bus.Server) {
	k := open(t, one, "faults", 0)
	f := follow(t.Context(), k, "")
	want := map[string]string{}
	for i := range bustest.Nodes {
		c.Kill(i)
		key := fmt.Sprintf("k%d", i)
		eventually(t, "a key is written by the others", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := k.Create(ctx, key, []byte("v"))
			return err == nil || errors.Is(err, bus.ErrChanged) // an attempt without a reply
		})
		want[key] = "v"
		eventually(t, "the change is seen", f.is(want))
		c.Restart(i)
		eventually(t, "values survive", func() bool {
			e, err := k.Get(t.Context(), key)
			return err == nil && string(e.Value) == "v"
		})
		c.Settle()
	}
}
