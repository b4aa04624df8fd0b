//go:build long

package lab_test

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestLongEdgesKilled: the agents of two edges and the server are killed in turn, while hosts
// behind the edges transfer files and send datagrams. No byte changes, nothing stalls for longer
// than 2 s, and flows that begin after it are counted exactly.
func TestLongEdgesKilled(t *testing.T) {
	text := strings.Replace(strings.Replace(edges, "POLICY", consent(t), 1), ", from: {r1: {loss: 1%, duplicate: 0.5%, reorder: 1%}}", "", 1)
	b := service(t, text)
	b.edgesRun("edges", "--both", "--lease", "3s")
	forward := b.carry("h1", "h2", behindIPv4, 8<<20)
	back := b.carry("h2", "h1", netip.MustParseAddr("fd77:0:0:1::1"), 8<<20)
	datagrams := b.open("h1", "h2", netip.AddrPortFrom(behindIPv6, 9000))
	ended, arrived := make(chan struct{}), atomic.Uint64{}
	go func() {
		defer close(ended)
		for buffer := make([]byte, 2048); datagrams.read(buffer) == nil; arrived.Add(1) { // until it is closed
		}
	}()
	stop := datagrams.traffic(100)
	marked := func() uint64 { return b.truth("r1-r2", "r1").Marked.Offered }
	for _, victim := range []string{"agent-r2", "agent-r1", "server"} {
		before := marked()
		eventually(t, "packets to be marked", func() bool { return marked() > before+200 })
		b.kill(victim)
		forward.midway()
		back.midway()
		time.Sleep(4 * time.Second) // longer than the lease
		b.start(victim)
	}
	before := marked()
	eventually(t, "packets to be marked again", func() bool { return marked() > before+200 })
	stop()
	forward.finish()
	back.finish()
	eventually(t, "the last datagrams to arrive", func() bool { return arrived.Load() == datagrams.next })
	datagrams.in.Close()
	<-ended
	if got := uint64(len(datagrams.arrivals)); got != datagrams.next {
		t.Errorf("%d of %d datagrams arrived", got, datagrams.next)
	}
	longest := time.Duration(0)
	for i, a := range datagrams.arrivals[1:] {
		longest = max(longest, time.Duration(a.received-datagrams.arrivals[i].received))
	}
	t.Logf("longest time without a datagram: %v", longest)
	later := b.open("h1", "h2", netip.AddrPortFrom(behindIPv4, 9001))
	later.send(2000, 5000)
	for column, want := range map[string]int64{"packets": 2000, "expected": 2000, "lost": 0, "duplicated": 0} {
		b.reaches(want, "SELECT sum(%s) FROM flows WHERE session = 'edges' AND dport = 9001", column)
	}
}

// TestLongEdgesAggregate: an edge numbers the packets of the hosts behind it by addresses alone, whatever their ports.
// The figures equal the truth of the link between the edges, and name the ingress.
func TestLongEdgesAggregate(t *testing.T) {
	b := service(t, strings.Replace(edges, "POLICY", consent(t), 1))
	b.edgesRun("pairs", "--stamp-every", "1", "--flow", "src,dst")
	const each, ports = 1000, 4
	for _, to := range []netip.Addr{behindIPv4, behindIPv6} {
		var streams []*stream
		for port := range uint16(ports) {
			streams = append(streams, b.open("h1", "h2", netip.AddrPortFrom(to, 9000+port)))
		}
		for range each / 100 { // so that numbers of all ports are mixed
			for _, s := range streams {
				s.send(100, 20000)
			}
		}
	}
	const offered = 2 * ports * each
	truth := b.settled("r1-r2", "r1", offered).Marked
	if truth.Offered != offered || truth.Lost == 0 || truth.Duplicated == 0 {
		t.Errorf("of %d packets %d were marked, %d lost and %d duplicated", offered, truth.Offered, truth.Lost, truth.Duplicated)
	}
	b.agrees(truth, "session = 'pairs' AND source = 'r1' AND src <> ''", "packets", "expected", "lost", "duplicated")
	b.reaches(int64(truth.Delivered), "SELECT sum(delay_count) FROM flows WHERE session = 'pairs'")
	b.reaches(2, "SELECT count(DISTINCT src || dst) FROM flows WHERE session = 'pairs'") // one aggregate of each family
	if n := b.number("SELECT count(*) FROM flows WHERE session = 'pairs' AND (sport <> 0 OR dport <> 0 OR proto <> '')"); n > 0 {
		t.Errorf("%d rows have ports or a protocol", n)
	}
}
