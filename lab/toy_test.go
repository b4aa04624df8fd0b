//go:build toy

package lab_test

import (
	"net/netip"
	"strings"
	"testing"
)

// TestToySession: a session measures the example module of docs/howto/extending.md, which counts
// routers, in packets over two of them. TestLongToyModule in probe/module runs it with
// programs that have the module.
func TestToySession(t *testing.T) {
	b := service(t, `
hosts: {a: {}, q: {forward: true}, r: {forward: true}, b: {}, noc: {}}
links:
  - {ends: [a, q]}
  - {ends: [q, r]}
  - {ends: [r, b]}
  - {ends: [q, noc]}
service: {server: noc, agents: [a, b]}
`)
	if said, err := b.tryPillion("session", "create", "--dry-run", "--name", "x", "--from", "a", "--to", "b", "--modules", "hop-count"); err == nil || !strings.Contains(said, "add delay or loss") {
		t.Errorf("a session of the module alone: %v\n%s", err, said)
	}
	if said := b.pillion("session", "create", "--dry-run", "--name", "x", "--from", "a", "--to", "b", "--modules", "delay,loss,hop-count"); !containsAll(said,
		"4 bytes in each mark", "one row in hop_count each 1s for each flow", "packets marked in udp-option,tcp-option have no hop-count") {
		t.Errorf("the plan says\n%s", said)
	}
	if said := b.pillion("session", "points"); !containsAll(said, "hop-count", "routers that packets pass") {
		t.Errorf("the points are\n%s", said)
	}
	b.running("count", "--from", "a", "--to", "b", "--modules", "delay,loss,hop-count", "--encoding", "native,udp", "--trace=-1s", "--interval", "200ms")
	const each = 500
	for _, address := range []string{"10.77.3.2", "fd77:0:0:3::2"} {
		stream := b.open("a", "b", netip.AddrPortFrom(netip.MustParseAddr(address), 9000))
		stream.send(each, 10000)
	}
	b.reaches(2*each, "SELECT sum(packets) FROM flows WHERE session = 'count' AND dport = 9000")
	b.reaches(2*each, "SELECT sum(hops_count) FROM hop_count WHERE session = 'count' AND source = 'a' AND agent = 'b' AND dport = 9000")
	for _, column := range []string{"min(hops_min)", "max(hops_max)", "avg(hops_mean)"} {
		if n := b.number("SELECT %s FROM hop_count", column); n != 2 {
			t.Errorf("%s is %d, want 2", column, n)
		}
	}
	if full := b.task("count", "b", "destination")["module_states_full"]; full != 0 {
		t.Errorf("no room for the states of %d packets", full)
	}
}
