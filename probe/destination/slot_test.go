package destination

import (
	"math"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// arriveInOrder sends packets without a time, with the numbers from first on.
func arriveInOrder(t *testing.T, d *Destination, port uint16, first, packets int) {
	t.Helper()
	for i := range packets {
		mark := codec.Mark{Modules: wire.Loss, Single: true, Sequence: uint32(first + i)}
		run(t, d.objects.DestinationTc, optionMark(t, port, mark), 0)
	}
}

// inSlot is how many packets are counted in slots and not in their flows yet.
func (d *Destination) inSlot(t *testing.T) (packets int) {
	t.Helper()
	err := each(d.objects.Slots, func(_ uint32, s *destinationSlot) { packets += int(s.Run >> 32 & 0xffff) })
	if err != nil {
		t.Fatal(err)
	}
	return packets
}

// TestFlowsWithOneSlot: of flows with the same hash one has the slot, and all are counted.
// When it is removed, another takes its slot.
func TestFlowsWithOneSlot(t *testing.T) {
	d := openTC(t, Settings{slots: 1})
	first := 0
	for interval := range 3 {
		for port := range uint16(4) {
			for i := range 10 {
				arriveInOrder(t, d, port, first+i, 1)
			}
		}
		if got := d.inSlot(t); got < 8 {
			t.Errorf("%d packets are counted in the slot", got)
		}
		rows, err := d.Read(ByFlow)
		if err != nil || len(rows) != 4 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for _, row := range rows {
			if want := (Counts{Packets: 10, Bytes: row.Bytes, Expected: 10}); row.Counts != want {
				t.Errorf("got %+v, want %+v", row.Counts, want)
			}
		}
		if first += 10; interval == 1 {
			d.settings.Idle = time.Nanosecond
			if rows, err := d.Read(ByFlow); err != nil || len(rows) > 0 || len(d.flows) > 0 {
				t.Errorf("%d rows, %d flows, %v", len(rows), len(d.flows), err)
			}
			d.settings.Idle, first = DefaultIdle, 0x50000
		}
	}
	in := map[uint32]int{}
	if err := each(d.objects.Flows, func(_ flow.Raw, f *destinationFlow) { in[f.Place]++ }); err != nil {
		t.Fatal(err)
	}
	if in[0] != 3 || in[1] != 1 {
		t.Errorf("flows by place of their slots: %v", in)
	}
}

// TestLongestRun: more packets than a slot counts.
func TestLongestRun(t *testing.T) {
	const packets = 1<<16 + 100
	d := openTC(t, Settings{})
	frames := optionMark(t, 1, codec.Mark{Modules: wire.Loss, Single: true})
	arriveInOrder(t, d, 1, 0, packets)
	row := d.mustRead(t, ByFlow)[0]
	if want := (Counts{Packets: packets, Bytes: packets * uint64(len(frames)-14-14), Expected: packets}); row.Counts != want {
		t.Errorf("got %+v, want %+v", row.Counts, want)
	}
}

// TestRunEndsWhenPeersChange: a host that is no longer a peer is not counted in a run.
func TestRunEndsWhenPeersChange(t *testing.T) {
	d := openTC(t, Settings{Peers: Peers{netip.MustParsePrefix("192.0.2.1/32"): {}}})
	arriveInOrder(t, d, 1, 0, 10)
	if got := d.inSlot(t); got != 9 {
		t.Errorf("%d packets of a run of 10 are counted in the slot", got)
	}
	if err := d.Accept(Peers{netip.MustParsePrefix("192.0.2.2/32"): {}}, nil); err != nil {
		t.Fatal(err)
	}
	arriveInOrder(t, d, 1, 10, 5)
	if tally := d.mustTally(t); tally.Packets != 10 || tally.Reasons["peer"] != 5 {
		t.Errorf("%+v", tally)
	}
	if err := d.Accept(Peers{netip.MustParsePrefix("192.0.2.1/32"): {}}, nil); err != nil {
		t.Fatal(err)
	}
	arriveInOrder(t, d, 1, 15, 5)
	row := d.mustRead(t, ByFlow)[0]
	if want := (Counts{Packets: 15, Bytes: row.Bytes, Expected: 20, Lost: 5}); row.Counts != want {
		t.Errorf("got %+v, want %+v", row.Counts, want)
	}
}

// TestPacketDuringACollection: a packet that interrupts the collection of its flow, on the
// same processor, cannot wait for its end, and is counted as contended. One on another
// processor waits, and where that takes too long is counted so too.
func TestPacketDuringACollection(t *testing.T) {
	d := openTC(t, Settings{slots: 1})
	arriveInOrder(t, d, 1, 0, 10)
	var slot destinationSlot
	if err := d.objects.Slots.Lookup(uint32(0), &slot); err != nil {
		t.Fatal(err)
	}
	locked := slot
	locked.Run = math.MaxUint64
	if err := d.objects.Slots.Put(uint32(0), locked); err != nil {
		t.Fatal(err)
	}
	pinned(t, func(processor int) {
		for i, collecting := range []int{processor + 1, 0} {
			if err := d.objects.Collecting.Set(uint32(collecting)); err != nil {
				t.Fatal(err)
			}
			arriveInOrder(t, d, 1, 10+i, 1)
			if got := d.mustTally(t).Contended; got != uint64(i)+1 {
				t.Errorf("%d packets contended", got)
			}
		}
	})
	if err := d.objects.Slots.Put(uint32(0), slot); err != nil {
		t.Fatal(err)
	}
	arriveInOrder(t, d, 1, 12, 1)
	row := d.mustRead(t, ByFlow)[0]
	if want := (Counts{Packets: 11, Bytes: row.Bytes, Expected: 13, Lost: 2}); row.Counts != want {
		t.Errorf("got %+v, want %+v", row.Counts, want)
	}
}

// pinned keeps the test on one processor.
func pinned(t *testing.T, f func(processor int)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	processor := 0
	for !before.IsSet(processor) {
		processor++
	}
	one.Set(processor)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.SchedSetaffinity(0, &before); err != nil {
			t.Error(err)
		}
	}()
	f(processor)
}
