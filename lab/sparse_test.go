package lab_test

import (
	"net/netip"
	"testing"
	"time"
)

// TestSparseMarksTruth: of a fast flow few packets carry a mark, and the loss of all is
// exact once the last packet with a mark has arrived.
func TestSparseMarksTruth(t *testing.T) {
	t.Parallel() // it mostly waits
	sparseMarksTruth(t, false)
}

// sparseMarksTruth tries some of the rows, or, long, the others.
func sparseMarksTruth(t *testing.T, long bool) {
	const packets = 20000
	for name, row := range map[string]struct {
		encoding, faults string
		to               netip.Addr
		long             bool
	}{
		"udp-option, IPv4":            {"udp-option", "loss: 1%", secondIPv4, true},
		"udp-option, IPv6, reordered": {"udp-option", "delay: 2ms\n      jitter: 1ms\n      loss: 1%", secondIPv6, false},
		"native":                      {"native", "loss: 1%", secondIPv6, true},
		"udp":                         {"udp", "loss: 1%", secondIPv4, false},
	} {
		if row.long != long {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate:\n      seed: 3\n      "+row.faults+"\n")
			d := b.probe("b", "destination", "a")
			s := b.probe("a", "source", "b", "--encoding="+row.encoding, "--sparse-marks", "--filter", "dport=9000")
			stream := b.open("a", "b", netip.AddrPortFrom(row.to, 9000))
			stream.send(packets, 10000)
			stream.enclose(func(sent uint64) bool { return d.seen().Expected == sent })
			truth := b.settled("a-b", "a", stream.next)
			marked, read := both(s, d)
			if truth.Unread != 0 {
				t.Skipf("emulator did not read %d frames: this machine is too slow", truth.Unread)
			}
			if marked.Marked+marked.Counted != truth.Total.Offered || marked.Counted < packets/2 {
				t.Errorf("of %d packets on the link: %+v", truth.Total.Offered, marked)
			}
			if read.Packets != truth.Total.Delivered || read.Unchecked != read.Packets || read.Counted == 0 {
				t.Errorf("of %d delivered packets: %+v", truth.Total.Delivered, read)
			}
			if delays := read.Delay.Count; delays != truth.Marked.Delivered {
				t.Errorf("%d delays of %d marks", delays, truth.Marked.Delivered)
			}
			if read.Expected != truth.Total.Offered || read.Lost != truth.Total.Lost || read.Duplicated+read.Reordered+read.Late+read.Restarts != 0 {
				t.Errorf("lost %d of %d: %+v", truth.Total.Lost, truth.Total.Offered, read)
			}
			t.Logf("%+v %+v", marked, read)
		})
	}
}

// enclose sends packets now and then, at least one, until one arrives with a mark, so that those
// before are accounted for: also those that the mark of the last packet, if it has one, overtook.
// Of a flow that has become slow not every packet carries one.
func (s *stream) enclose(enclosed func(sent uint64) bool) {
	s.t.Helper()
	for i := range 50 {
		time.Sleep(1200 * time.Millisecond)
		if i > 0 && enclosed(s.next) {
			return
		}
		s.send(1, 10000)
	}
	s.t.Fatalf("no mark after %d packets", s.next)
}

// TestSparseMarksOfTCP: segments are counted as they are on the wire, whatever buffers the
// hosts make of them.
func TestSparseMarksOfTCP(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {seed: 5, delay: 1ms, loss: 0.5%, queue: 100000}\n")
			d := b.probe("b", "destination", "a")
			s := b.probe("a", "source", "b", tcpOption, "--sparse-marks", "--filter", "proto=tcp")
			b.carry("a", "b", address, 20<<20).finish()
			truth := b.quiet("a-b", "a")
			marked, read := both(s, d)
			if truth.Unread != 0 {
				t.Skipf("emulator did not read %d frames: this machine is too slow", truth.Unread)
			}
			var sent, delivered, lost uint64
			for _, f := range truth.Flows {
				if f.Protocol == 6 {
					sent, delivered, lost = sent+f.Offered, delivered+f.Delivered, lost+f.Lost
				}
			}
			if marked.Marked+marked.Counted != sent || marked.Counted == 0 || read.Packets != delivered {
				t.Errorf("sent %d, delivered %d: %+v, %+v", sent, delivered, marked, read)
			}
			// What was lost behind the last mark that arrived is not known yet.
			if read.Expected > sent || read.Lost > lost || read.Lost == 0 || read.Unchecked > read.Packets || read.Unchecked+read.Lost != read.Expected || read.Restarts != 0 {
				t.Errorf("lost %d of %d: %+v", lost, sent, read)
			}
			t.Logf("lost %d of %d; %+v %+v", lost, sent, marked, read)
		})
	}
}
