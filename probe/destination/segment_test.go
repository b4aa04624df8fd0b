package destination

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"pillion.dev/measure/module"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// amended marks a datagram that was sent so long ago and came to a waypoint after first; zero: to none.
func amended(t *testing.T, encoding wire.Encoding, number uint32, ago, first time.Duration) []byte {
	t.Helper()
	sent := time.Now().Add(-ago)
	mark := codec.Mark{Modules: wire.Delay | wire.Loss, Sent: codec.TimestampOf(sent), Sequence: number, Single: true}
	if first != 0 {
		mark.Received = codec.TimestampOf(mark.Sent.Near(sent).Add(first))
	}
	if number%2 == 1 { // of an ingress, whose header is read option by option
		mark.Options = codec.AppendModules(codec.IngressOption(7))
	}
	marked, err := codec.Insert(datagramOf(encoding), encoding, mark, wire.Port)
	if err != nil {
		t.Fatal(err)
	}
	return marked
}

// TestSegments: the time of a waypoint divides the delay of a packet into that of two segments, once
// for each packet. Marks without such a time are in no segment.
func TestSegments(t *testing.T) {
	for _, encoding := range []wire.Encoding{wire.Native, wire.Shim, wire.IPIP, wire.UDP} {
		t.Run(encoding.String(), func(t *testing.T) {
			d := open(t, Settings{})
			original := frame(datagramOf(encoding))
			var sent uint32
			send := func(program *ebpf.Program, first time.Duration) {
				marked := frame(amended(t, encoding, sent, 10*time.Millisecond, first))
				checkFrame(t, run(t, program, marked, 0), original)
				sent++
			}
			for range 4 {
				for _, program := range []*ebpf.Program{d.objects.DestinationTc, d.objects.DestinationXdp} {
					send(program, 3*time.Millisecond)
					send(program, 7*time.Millisecond)
				}
			}
			copied := frame(amended(t, encoding, sent-2, 10*time.Millisecond, 5*time.Millisecond))
			checkFrame(t, run(t, d.objects.DestinationTc, copied, 0), original)
			checkSegments(t, d, sent)
			send(d.objects.DestinationTc, 0)
			rows, err := d.Read(ByHost)
			if err != nil || len(rows) != 1 || rows[0].Packets != 1 || rows[0].States()[module.Segments] != nil {
				t.Errorf("without a waypoint: rows %+v, error %v", rows, err)
			}
		})
	}
}

// checkSegments expects first segments of 3 and 7 ms, each in half of the packets, and second ones
// that with them make up the delay.
func checkSegments(t *testing.T, d *Destination, packets uint32) {
	t.Helper()
	rows, err := d.Read(ByHost)
	if err != nil {
		t.Fatal(err)
	}
	var segments module.State
	var delays, sum int64
	for _, row := range rows {
		if state := row.States()[module.Segments]; state != nil {
			module.Segments.Add(&segments, state)
		}
		delays += int64(row.Delay.Count)
		sum += int64(row.values.delay.sum)
	}
	w := segments.Words
	if w[0] != uint64(packets) || w[4] != uint64(packets) || delays != int64(packets) {
		t.Errorf("%d and %d packets in segments, %d delays, want %d", w[0], w[4], delays, packets)
	}
	// Times on the wire are rounded to a quarter of a nanosecond.
	near := func(ns, want int64) bool { return ns-want <= 1 && want-ns <= 1 }
	if !near(int64(w[2]), 3e6) || !near(int64(w[3]), 7e6) || !near(int64(w[1])/int64(packets), 5e6) {
		t.Errorf("first segment from %d to %d ns, sum %d", w[2], w[3], w[1])
	}
	if int64(w[1])+int64(w[5]) != sum {
		t.Errorf("the segments add up to %d ns, the delays to %d", int64(w[1])+int64(w[5]), sum)
	}
}

// TestSegmentsEnd: with a flow its state of segments is removed.
func TestSegmentsEnd(t *testing.T) {
	d := open(t, Settings{Idle: time.Nanosecond})
	run(t, d.objects.DestinationTc, frame(amended(t, wire.Native, 0, time.Millisecond, time.Microsecond)), 0)
	for range 2 {
		if _, err := d.Read(ByFlow); err != nil {
			t.Fatal(err)
		}
	}
	var key destinationModuleKey
	if err := d.objects.ModuleStates.NextKey(nil, &key); err == nil {
		t.Errorf("state %+v is left", key)
	}
}

// TestUnreadPeer: no mark of a peer counts that is there only to be amended.
func TestUnreadPeer(t *testing.T) {
	host := keyOf(datagramOf(wire.Native)).Src
	d := open(t, Settings{Peers: Peers{netip.PrefixFrom(host, 64): {Unread: true}}})
	marked := frame(amended(t, wire.Native, 0, time.Millisecond, 0))
	checkFrame(t, run(t, d.objects.DestinationTc, marked, 0), marked)
	if tally := d.mustTally(t); tally.Packets != 0 || tally.Reasons["peer"] != 1 || tally.Amended != 0 {
		t.Errorf("tally %+v", tally)
	}
}
