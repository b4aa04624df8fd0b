//go:build long

package lab_test

import "testing"

// TestLongEdgesAsDocumented: the lab with two edges of docs/howto/edge-to-edge.md shows the delay of packets of hosts
// without an agent.
func TestLongEdgesAsDocumented(t *testing.T) {
	t.Parallel() // it mostly waits
	d := newDesk(t)
	d.watched("docs/howto/edge-to-edge.md", "edge-lab", "edges.yaml")
}
