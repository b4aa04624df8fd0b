//go:build long

package lab_test

import (
	"net/netip"
	"testing"

	"pillion.dev/lab/emulator"
)

// TestLongRouterLeavesMarksOfHostsBehind: sessions from one host to a router and to a host behind
// it run at once. Each destination reads the packets that it receives, and those only.
func TestLongRouterLeavesMarksOfHostsBehind(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, agentRouter)
	b.running("near", "--from", "a", "--to", "r", "--trace=-1s", "--interval", "200ms", "--encoding", "native,udp")
	b.running("far", "--from", "a", "--to", "b", "--trace=-1s", "--interval", "200ms", "--encoding", "native,udp")
	addresses := map[string][]string{"r": {"10.77.1.2", "fd77:0:0:1::2"}, "b": {"10.77.2.2", "fd77:0:0:2::2"}}
	const each = 2000
	for host, texts := range addresses {
		for _, text := range texts {
			s := b.open("a", host, netip.AddrPortFrom(netip.MustParseAddr(text), 9000))
			s.send(each, 10000)
			if host == "b" {
				b.carry("a", host, netip.MustParseAddr(text), 1<<20).finish()
			}
		}
	}
	report := b.quiet("r-b", "r")
	truth := report.Marked
	if truth.Offered < 2*each || truth.Lost == 0 || truth.Duplicated == 0 {
		t.Errorf("of %d packets to b %d were marked, %d lost, and %d duplicated", 2*each, truth.Offered, truth.Lost, truth.Duplicated)
	}
	const far = "session = 'far' AND agent = 'b'"
	b.agrees(truth, far, "packets", "expected")
	// Within a segmentation buffer a duplicate offsets a loss.
	b.reaches(int64(truth.Lost)-int64(truth.Duplicated), "SELECT sum(lost) - sum(duplicated) FROM flows WHERE "+far)
	var datagrams emulator.Tally
	for _, f := range report.Flows {
		if f.Marked && f.DestinationPort == 9000 { // of those in UDP over IPv4 it knows the outer header
			datagrams.Lost += f.Lost
			datagrams.Duplicated += f.Duplicated
		}
	}
	b.agrees(datagrams, far+" AND dport = 9000 AND CAST(dst AS VARCHAR) LIKE 'fd77%'", "lost", "duplicated")
	b.reaches(2*each, "SELECT sum(packets) FROM flows WHERE session = 'near' AND agent = 'r'")
	b.reaches(0, "SELECT coalesce(sum(lost), 0) FROM flows WHERE agent = 'r'")
	if n := b.number("SELECT count(*) FROM flows WHERE agent = 'r' AND CAST(dst AS VARCHAR) NOT LIKE '10.77.1.2%%' AND CAST(dst AS VARCHAR) NOT LIKE 'fd77:0:0:1::2%%'"); n != 0 {
		t.Errorf("%d rows of the router are of packets to others", n)
	}
	if transit := b.task("near", "r", "destination")["device_transit"]; transit < 2*each {
		t.Errorf("the router left %d marks of packets that it forwarded", transit)
	}
}
