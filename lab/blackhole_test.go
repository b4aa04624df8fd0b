package lab_test

import (
	"net/netip"
	"testing"
)

// TestLostPacketsAreCountedExactly: a queue behind the source that discards everything for a while
// is the oracle. What was sent was received or is lost, and the rest has a delay.
func TestLostPacketsAreCountedExactly(t *testing.T) {
	for family, to := range toB {
		t.Run(family, func(t *testing.T) {
			const arriving, lost = 200, 50
			b := up(t, pair)
			d := b.probe("b", "destination", "a")
			s := b.probe("a", "source", "b", "--stamp-every", "1")
			flow := b.open("a", "b", netip.AddrPortFrom(to, 9000))
			flow.send(arriving/2, 10_000)
			flow.receive(arriving / 2)
			b.exec("a", "tc", "qdisc", "add", "dev", "b", "root", "blackhole")
			flow.send(lost, 10_000)
			b.exec("a", "tc", "qdisc", "del", "dev", "b", "root")
			flow.send(arriving/2, 10_000)
			flow.receive(arriving)
			marked, read := both(s, d)
			if marked.Marked != arriving+lost || read.Expected != marked.Marked || read.Packets != arriving || read.Lost != lost {
				t.Errorf("marked %d packets, want %d; destination %+v, want %d packets and %d lost", marked.Marked, arriving+lost, read, arriving, lost)
			}
			if read.Delay.Count != arriving || read.Delay.Min <= 0 || read.Rejected+read.Unrestored != 0 {
				t.Errorf("%d packets with a delay, from %d ns, want %d; %d rejected, %d unrestored",
					read.Delay.Count, read.Delay.Min, arriving, read.Rejected, read.Unrestored)
			}
			t.Logf("marked %d, received %d, lost %d, delay p50 %d ns", marked.Marked, read.Packets, read.Lost, read.Delay.P50)
		})
	}
}
