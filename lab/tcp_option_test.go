package lab_test

import (
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"pillion.dev/lab/emulator"
	"pillion.dev/lab/test/packets"
)

const tcpOption = "--encoding=tcp-option"

// Marks of connections are exact on a link that loses some of them: numbered in the order
// in which they leave, also when they are sent again.
func TestTCPOptionTruth(t *testing.T) {
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			truth, marked, read := upFaulty(t, "loss: 0.5%").countSegments(address, 1, 20<<20)
			compareWithTruth(t, truth, marked, read)
		})
	}
}

// upFaulty is a lab of two hosts with faults for packets from a.
func upFaulty(t *testing.T, faults string) *bed {
	t.Helper()
	return up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {seed: 5, delay: 1ms, queue: 100000, from: {a: {"+faults+"}}}\n")
}

// countSegments carries so many bytes in each of several connections.
func (b *bed) countSegments(address netip.Addr, connections int, size int64) (emulator.Direction, sourceSummary, destinationSummary) {
	b.t.Helper()
	d := b.probe("b", "destination", "a")
	s := b.probe("a", "source", "b", tcpOption, "--filter", "proto=tcp")
	var transfers []*transfer
	for range connections {
		transfers = append(transfers, b.carry("a", "b", address, size))
	}
	carried(b.t, transfers, int64(connections)*size)
	// The last packets of each connection must arrive: only a later packet reveals a loss.
	if err := b.Change(b.t.Context(), "a-b", "a", emulator.Calm()); err != nil {
		b.t.Fatal(err)
	}
	for _, x := range transfers {
		x.midway()
	}
	for _, x := range transfers {
		x.finish()
	}
	truth := b.quiet("a-b", "a")
	marked, read := both(s, d)
	if truth.Unread != 0 {
		b.t.Errorf("the emulator did not read %d frames", truth.Unread)
	}
	b.t.Logf("bar: %d packets marked; lost %d, duplicated %d, reordered %d, truth %+v; delay p50 %d",
		marked.Marked, read.Lost, read.Duplicated, read.Reordered, truth.Marked, read.Delay.P50)
	return truth, marked, read
}

// A host that does not know marks receives everything.
func TestTCPOptionWithoutDestination(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := up(t, pair)
			s := b.probe("a", "source", "b", tcpOption)
			b.carry("a", "b", address, 20<<20).finish()
			b.datagrams("a", "b", address, 100, 1000)
			var marked sourceSummary
			s.finish(&marked)
			if marked.Marked < 1000 || marked.Connections.Marked != 1 || marked.Connections.Stopped != 0 || marked.MSSClamped != 0 {
				t.Errorf("%+v", marked)
			}
		})
	}
}

// The segment size leaves exactly the room that marks take: full segments fill a frame.
func TestTCPOptionSegmentSize(t *testing.T) {
	const frame = 14 + 1500
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			b := up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {delay: 1us, queue: 100000, packets: true}\n")
			s := b.probe("a", "source", "b", tcpOption, "--filter", "proto=tcp")
			b.carry("a", "b", address, 2<<20).finish()
			b.quiet("a-b", "a")
			var marked sourceSummary
			s.finish(&marked)
			if marked.Skipped["mtu"]+marked.Skipped["gso"]+marked.MSSClamped != 0 {
				t.Errorf("segments do not fit: %+v", marked)
			}
			file, err := os.Open(b.path("a-b.a.packets"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			full := 0
			for p, err := range packets.Read(file) {
				if err != nil || p.Size > frame {
					t.Fatalf("frame of %d bytes, %v", p.Size, err)
				}
				if p.Marked && p.Size == frame {
					full++
				}
			}
			if want := 1 << 20 / 1500; full < want {
				t.Errorf("%d full frames are marked, want %d at least", full, want)
			}
		})
	}
}

// A source takes up a connection that exists, and one that is killed leaves it alone.
func TestTCPOptionOfExistingConnection(t *testing.T) {
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			b := up(t, slowPair)
			d := b.probe("b", "destination", "a", "--interval", "50ms")
			x := b.carry("a", "b", address, 60<<20)
			x.midway()
			s := b.probe("a", "source", "b", tcpOption)
			eventually(t, "marks in a connection that began before", func() bool { return d.seen().Packets > 0 })
			s.end(unix.SIGKILL)
			x.midway()
			before := b.truth("a-b", "a").Marked.Offered
			x.finish()
			truth := b.quiet("a-b", "a")
			if truth.Marked.Offered != before || truth.Total.Offered == truth.Marked.Offered {
				t.Errorf("%d marks when the source was gone, %d at the end", before, truth.Marked.Offered)
			}
			var read destinationSummary
			d.finish(&read)
			if read.Packets == 0 || read.Packets != truth.Marked.Delivered || read.Lost != 0 {
				t.Errorf("%+v, on the link %+v", read, truth.Marked)
			}
		})
	}
}

// Only connections of the device's network namespace are marked, and only those whose
// route leads to the device.
func TestTCPOptionOfOthers(t *testing.T) {
	b := up(t, "hosts: {a: {}, b: {}, c: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {delay: 1us}\n  - ends: [c, b]\n    emulate: {delay: 1us}\n")
	s := b.probe("a", "source", "b", tcpOption)
	other := b.probe("c", "source", "b", tcpOption, "--filter", "proto=udp")
	b.carry("a", "b", secondIPv4, 1<<20).finish()
	b.carry("c", "b", netip.MustParseAddr("10.77.2.2"), 1<<20).finish()
	var marked, unmarked sourceSummary
	s.finish(&marked)
	other.finish(&unmarked)
	if marked.Connections.Marked != 1 || marked.Marked == 0 {
		t.Errorf("own connection: %+v", marked)
	}
	if truth := b.quiet("c-b", "c"); unmarked.Connections.Marked != 0 || truth.Marked.Offered != 0 {
		t.Errorf("another's connection: %+v, %+v", unmarked, truth.Marked)
	}
}
