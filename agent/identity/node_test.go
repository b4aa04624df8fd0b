package identity

import (
	"strings"
	"testing"

	"pillion.dev/bus"
)

func TestNodeName(t *testing.T) {
	long := "ip-10-0-1-2." + strings.Repeat("eu-central-1.compute.", 6) + "internal"
	for _, row := range []struct{ node, want string }{
		{"worker-1", "worker-1"},
		{"ip-10-0-1-2.ec2.internal", "ip-10-0-1-2-ec2-internal"},
		{strings.Repeat("a", 63), strings.Repeat("a", 63)},
		{long, "ip-10-0-1-2-eu-central-1-compute-eu-central-1-compute-c2f2d4a4"},
	} {
		got := NodeName(row.node)
		if got != row.want || !bus.ValidAgent(got) {
			t.Errorf("node %s: agent %q, want %q", row.node, got, row.want)
		}
	}
	if a, b := NodeName(long+"a"), NodeName(long+"b"); a == b {
		t.Errorf("two nodes are both agent %s", a)
	}
}

// TestEnrolNode: the name of the node is the default, and leaves an agent its name.
func TestEnrolNode(t *testing.T) {
	n, folder := newNOC(t), t.TempDir()
	options := n.options(folder, "")
	options.Node = "w1.example"
	for range 2 {
		i, _, err := Enrol(t.Context(), options)
		if err != nil || i.Name() != "w1-example" {
			t.Fatalf("enrolled as %v, %v", i, err)
		}
		options.Node = "other.example"
	}
	options.Node = "w1_example"
	options.Folder = t.TempDir()
	if _, _, err := Enrol(t.Context(), options); err == nil || !strings.Contains(err.Error(), "w1_example") {
		t.Errorf("invalid node: %v", err)
	}
}
