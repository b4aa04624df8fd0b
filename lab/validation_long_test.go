//go:build long

package lab_test

import (
	"net/netip"
	"testing"
)

// A path that begins to drop them while a flow is marked costs the flow what it sends
// until the next test, and is used again when it stops.
func TestLongPathValidationOfChangedPath(t *testing.T) {
	t.Parallel() // it mostly waits
	b := up(t, pair)
	s := b.probe("a", "source", "b", validated)
	flow := b.open("a", "b", netip.AddrPortFrom(secondIPv4, 9000))
	sent := flow.used(s, "udp-option", "passed")
	flow.receive(sent)
	box := b.insert("b", "a", dropping)
	eventually(t, "path validation of udp-option to fail", func() bool { return s.path("udp-option").State == "failed" })
	flow.send(100, 32000)
	flow.receive(sent + 100)
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	sent += 100 + flow.used(s, "udp-option", "passed")
	flow.receive(sent)
	var marked sourceSummary
	if s.finish(&marked); marked.Marked == 0 || marked.Skipped["path_failed"]+marked.Skipped["unvalidated"] < 100 {
		t.Errorf("%+v", marked)
	}
}

// TestLongPathValidationAgainstMiddleboxes: each over the other IP version.
func TestLongPathValidationAgainstMiddleboxes(t *testing.T) {
	t.Parallel() // it mostly waits
	pathValidationAgainstMiddleboxes(t, true)
}

// TestLongPathValidationFindsSize: each kind of destination over the other IP version.
func TestLongPathValidationFindsSize(t *testing.T) {
	t.Parallel() // it mostly waits
	pathValidationFindsSize(t, true)
}

// TestLongSessionValidatesPathsFirst: over IPv6.
func TestLongSessionValidatesPathsFirst(t *testing.T) {
	t.Parallel() // it mostly waits
	sessionValidatesPathsFirst(t, secondIPv6)
}

// TestLongSessionAvoidsBlackHoles: over IPv4.
func TestLongSessionAvoidsBlackHoles(t *testing.T) {
	t.Parallel() // it mostly waits
	sessionAvoidsBlackHoles(t, secondIPv4)
}

// TestLongSmallerPathWithoutICMP: over IPv6.
func TestLongSmallerPathWithoutICMP(t *testing.T) {
	t.Parallel() // it mostly waits
	smallerPathWithoutICMP(t, secondIPv6, 48)
}
