package lab_test

import (
	"net/netip"
	"os"
	"testing"

	"pillion.dev/lab/emulator"
	"pillion.dev/lab/test/packets"
)

var (
	firstIPv6  = netip.MustParseAddr("fd77:0:0:1::1")
	firstIPv4  = netip.MustParseAddr("10.77.1.1")
	secondIPv4 = netip.MustParseAddr("10.77.1.2")
	secondIPv6 = netip.MustParseAddr("fd77:0:0:1::2")
)

// The receiver is the oracle: it counts sequence numbers in payloads, independently of the
// emulator.
func TestTruthEqualsWhatAReceiverSaw(t *testing.T) { truthEqualsWhatAReceiverSaw(t, 10_000) }

// truthEqualsWhatAReceiverSaw sends the given number of packets with all faults, and fewer with each.
func truthEqualsWhatAReceiverSaw(t *testing.T, most int) {
	tests := map[string]struct {
		faults      string
		destination netip.AddrPort
		count       int
	}{
		"no faults":             {"delay: 1ms", netip.AddrPortFrom(secondIPv4, 9000), 2000},
		"loss":                  {"loss: 5%", netip.AddrPortFrom(secondIPv4, 9000), 5000},
		"duplicates":            {"delay: 1ms\n      duplicate: 5%", netip.AddrPortFrom(secondIPv6, 9000), 5000},
		"held back":             {"delay: 1ms\n      reorder: 3%\n      reorder_gap: 2ms", netip.AddrPortFrom(secondIPv6, 9000), 5000},
		"jitter reorders":       {"delay: 2ms\n      jitter: 2ms", netip.AddrPortFrom(secondIPv4, 9000), 5000},
		"jitter in order":       {"delay: 2ms\n      jitter: 2ms\n      keep_order: true", netip.AddrPortFrom(secondIPv4, 9000), 5000},
		"rate drops":            {"rate: 2mbit\n      queue: 20", netip.AddrPortFrom(secondIPv4, 9000), 2000},
		"marked by port":        {"loss: 5%", netip.AddrPortFrom(secondIPv6, 50253), 5000},
		"everything, in number": {"delay: 3ms\n      jitter: 500us\n      loss: 1%\n      duplicate: 0.5%\n      reorder: 0.5%", netip.AddrPortFrom(secondIPv6, 9000), most},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate:\n      seed: 7\n      packets: true\n      "+test.faults+"\n")
			s := b.open("a", "b", test.destination)
			s.send(test.count, 10000) // the receive buffer must hold what arrives while the receiver waits
			truth := b.settled("a-b", "a", uint64(test.count))
			if len(truth.Flows) != 1 {
				t.Fatalf("got %d flows, want 1: %+v", len(truth.Flows), truth.Flows)
			}
			s.receive(truth.Total.Delivered + truth.Total.Duplicated)
			compare(t, truth, s, test.count)
			checkPacketLog(t, b, truth, s)
			t.Logf("%+v late %+v", truth.Total, truth.Late)
		})
	}
}

// compare compares the truth with the receiver's own counts.
func compare(t *testing.T, truth emulator.Direction, s *stream, sent int) {
	t.Helper()
	if truth.Unread != 0 {
		t.Errorf("emulator did not read %d frames: send slower", truth.Unread)
	}
	f, got := truth.Flows[0], s.count()
	if f.Tally != truth.Total {
		t.Errorf("total %+v is not the only flow %+v", truth.Total, f.Tally)
	}
	want := seen{f.Delivered, f.Duplicated, f.Reordered}
	if got != want {
		t.Errorf("receiver counted %+v, truth is %+v", got, want)
	}
	if f.Offered != uint64(sent) || f.Offered != f.Delivered+f.Lost+f.InFlight {
		t.Errorf("account is not closed: sent %d, %+v", sent, f.Tally)
	}
	if f.Lost != f.LostRandom+f.LostRate+f.LostFull+f.LostError {
		t.Errorf("reasons do not add up to the loss: %+v", f.Tally)
	}
	if f.Delay.Count != f.Delivered {
		t.Errorf("got %d delays of %d delivered packets", f.Delay.Count, f.Delivered)
	}
	to := s.in.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort()
	if f.Destination != to.Addr().Unmap() || f.DestinationPort != to.Port() || f.SourcePort != s.localPort() || f.Protocol != 17 {
		t.Errorf("flow %+v is not from port %d to %s", f, s.localPort(), to)
	}
	if marked := to.Port() == 50253; f.Marked != marked || (truth.Marked.Offered > 0) != marked {
		t.Errorf("marked is %v with %d packets, want %v", f.Marked, truth.Marked.Offered, marked)
	}
}

// checkPacketLog compares every record with the receiver, packet by packet. Times are
// comparable because all hosts share one clock: a packet is sent, then read, then written,
// then received.
func checkPacketLog(t *testing.T, b *bed, truth emulator.Direction, s *stream) {
	t.Helper()
	file, err := os.Open(b.path("a-b.a.packets"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	counted := map[emulator.Fate]uint64{}
	var arrived int
	for p, err := range packets.Read(file) {
		if err != nil {
			t.Fatal(err)
		}
		fate := emulator.Fate(p.Fate)
		counted[fate]++
		if fate != emulator.Delivered && fate != emulator.Duplicate {
			continue
		}
		a := s.arrivals[arrived]
		arrived++
		if a.sequence != p.Index || a.sent > p.Read || p.Read > p.Written || p.Written > a.received {
			t.Fatalf("record %+v does not explain arrival %+v", p, a)
		}
	}
	want := map[emulator.Fate]uint64{
		emulator.Delivered: truth.Total.Delivered, emulator.Duplicate: truth.Total.Duplicated,
		emulator.LostRandom: truth.Total.LostRandom, emulator.LostRate: truth.Total.LostRate,
	}
	for fate, n := range want {
		if counted[fate] != n {
			t.Errorf("log has %d packets of fate %d, truth has %d", counted[fate], fate, n)
		}
	}
}
