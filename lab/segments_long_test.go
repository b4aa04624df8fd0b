//go:build long

package lab_test

import (
	"net/netip"
	"strings"
	"testing"

	"pillion.dev/lab/emulator"
)

// filtering is two edges with a router between them that drops what it does not know.
const filtering = `
hosts: {h1: {}, r1: {forward: true}, c: {forward: true}, r2: {forward: true}, h2: {}, noc: {}}
links:
  - {ends: [h1, r1]}
  - {ends: [r1, c]}
  - ends: [c, r2]
    emulate: {seed: 5, delay: 1ms, queue: 4000}
  - {ends: [r2, h2]}
  - {ends: [r1, noc]}
  - {ends: [r2, noc]}
service: {server: noc, agents: [r1, r2], agent_options: [--policy, POLICY, --path-validation=auto]}
`

// unknown has a router drop the protocol of the shim.
const unknown = `table inet unknown {
	chain through {
		type filter hook forward priority 0
		meta l4proto 253 counter drop
	}
}`

// TestLongEdgePathValidation: path probes between two edges find that the path drops an encoding,
// so packets of the hosts behind them get the next one, and none is lost.
func TestLongEdgePathValidation(t *testing.T) {
	b := service(t, strings.Replace(filtering, "POLICY", consent(t), 1))
	b.exec("c", "nft", unknown)
	b.running("edges", "--from", "r1", "--to", "r2", "--trace=-1s", "--stamp-every", "1", "--encoding", "native,shim,udp",
		"--transit", "r1=10.77.1.0/24,fd77:0:0:1::/64", "--transit", "r2=10.77.4.0/24,fd77:0:0:4::/64")
	var streams []*stream
	for _, address := range []string{"10.77.4.2", "fd77:0:0:4::2"} {
		streams = append(streams, b.open("h1", "h2", netip.AddrPortFrom(netip.MustParseAddr(address), 9000)))
	}
	sent := 0
	send := func(n int) {
		for _, s := range streams {
			s.send(n, 1000)
		}
		sent += n
	}
	eventually(t, "packets of both versions of IP to be marked", func() bool {
		send(10) // the first of a flow learns in which encoding marked packets arrive
		flows, err := b.tryNumber("SELECT count(DISTINCT dst) FROM flows WHERE session = 'edges' AND dport = 9000")
		return err == nil && flows == 2
	})
	if failed := b.task("edges", "r1", "source")["paths_failed"]; failed == 0 {
		t.Error("the path that drops the shim has not failed")
	}
	const each = 2000
	send(each)
	if n := b.quiet("c-r2", "c").Total.Offered; n < uint64(2*sent) {
		t.Errorf("%d of %d packets passed the router", n, 2*sent)
	}
	for _, address := range []string{"10.77.4.", "fd77:"} {
		b.atLeast(each, "SELECT coalesce(sum(packets), 0) FROM flows WHERE session = 'edges' AND dport = 9000 AND CAST(dst AS VARCHAR) LIKE '%s%%%%'", address)
	}
	b.reaches(0, "SELECT coalesce(sum(lost), 0) FROM flows WHERE session = 'edges'")
}

// TestLongSegments: one router marks the packets of a host without Pillion, the next one writes the
// time of arrival into the marks, and the destination has the delay of each segment. A host
// that marks its own packets to the same destination is the outer source of segments that
// overlap: its figures are whole, and the router says which packets it leaves alone.
func TestLongSegments(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, strings.Replace(divided, "POLICY", consent(t), 1))
	documented := strings.NewReplacer("--from a ", "--from r1 ", "--waypoint r ", "--waypoint r2 ").Replace(ofClass(t, "docs/howto/segments.md", "ask-waypoint"))
	b.pillion(strings.Fields(documented)[1:]...)
	const each = 2000 // packets of each family and session
	to := []netip.Addr{netip.MustParseAddr("10.77.4.2"), netip.MustParseAddr("fd77:0:0:4::2")}
	b.running("divided", "--from", "r1", "--to", "b", "--waypoint", "r2", "--trace=-1s", "--stamp-every", "1",
		"--transit", "r1=10.77.1.0/24,10.77.2.0/24,fd77:0:0:1::/64,fd77:0:0:2::/64")
	sum := func(link, from string) emulator.Tally { return b.quiet(link, from).Marked }
	for _, address := range to {
		b.open("h", "b", netip.AddrPortFrom(address, 9000)).send(each, 5000)
	}
	b.settled("r1-r2", "r1", uint64(2*each))
	first, second := sum("r1-r2", "r1"), sum("r2-b", "r2")
	if first.Offered < uint64(2*each) || first.Lost == 0 || second.Offered != first.Delivered {
		t.Errorf("of %d packets %d were marked, %d lost, and %d went on", 2*each, first.Offered, first.Lost, second.Offered)
	}
	b.segmentsOf("divided", first, second)
	if n := b.task("divided", "r2", "destination")["device_amended"]; n != first.Delivered {
		t.Errorf("the waypoint wrote into %d marks of %d", n, first.Delivered)
	}
	b.overlapping(to, each, first, second)
}
