package destination

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pillion.dev/measure/histogram"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// hashEntry is what the kernel adds to each entry of a hash table (struct htab_elem).
const hashEntry = 48

func TestFlowFitsInTwoKilobytes(t *testing.T) {
	d := openTC(t, Settings{})
	flows := d.objects.Flows
	if size := flows.ValueSize() + flows.KeySize() + hashEntry; size > 2048 {
		t.Errorf("a flow takes %d bytes", size)
	}
}

// TestTypicalFlowFitsInItsEntry: 300 stamped packets in an interval, on quiet paths and on
// one with queues, need at most one page outside of their flow.
func TestTypicalFlowFitsInItsEntry(t *testing.T) {
	var f destinationFlow

	for _, spread := range []time.Duration{3 * time.Microsecond, 30 * time.Microsecond, 300 * time.Microsecond} {
		random := rand.New(rand.NewPCG(9, 9))
		delays, variations := map[int]bool{}, map[int]bool{}
		var last int64
		for i := range 300 {
			delay := int64(500*time.Microsecond) + int64(random.ExpFloat64()*float64(spread))
			delays[histogram.Index(delay)>>5] = true
			if i > 0 {
				variations[histogram.Index(delay-last)>>5] = true
			}
			last = delay
		}
		outside := max(0, len(delays)-len(f.Histograms.DelayPages)) + max(0, len(variations)-len(f.Histograms.VariationPages))
		if outside > 1 {
			t.Errorf("delays that vary by %v are in %d pages, their variations in %d", spread, len(delays), len(variations))
		}
	}
}

// optionMark is an IPv4 datagram from this port with a mark in a UDP option.
func optionMark(t *testing.T, port uint16, mark codec.Mark) []byte {
	t.Helper()
	original := datagram()
	binary.BigEndian.PutUint16(original[20:], port)
	marked, err := codec.Insert(rewritten(original, 0, 64), wire.UDPOption, mark, wire.Port)
	if err != nil {
		t.Fatal(err)
	}
	return frame(marked)
}

// TestManyFlowsAreCollected: more flows than one run of the program hands over.
func TestManyFlowsAreCollected(t *testing.T) {
	const flows = 2*readBatch + 10
	d := openTC(t, Settings{Flows: 2 * flows})
	for interval := range uint32(2) {
		for port := range uint16(flows) {
			for range interval + 1 {
				mark := codec.Mark{
					Modules: wire.Delay | wire.Loss, Single: true, Sequence: uint32(port)<<16 + interval,
					Ticks: codec.TicksOf(time.Now().Add(-time.Second)),
				}
				run(t, d.objects.DestinationTc, optionMark(t, port, mark), 0)
			}
		}
		rows, err := d.Read(ByFlow)
		if err != nil || len(rows) != flows {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for _, row := range rows {
			delay, variation := row.Histograms()
			want := Counts{Packets: uint64(interval) + 1, Expected: 1, Duplicated: uint64(interval), Bytes: row.Bytes}
			if row.Counts != want || delay.Total() != 1 || row.Delay.Count != 1 || variation.Total() != uint64(interval) {
				t.Fatalf("%+v, %d delays, %d variations", row, delay.Total(), variation.Total())
			}
		}
	}
	d.settings.Idle = time.Nanosecond
	if rows, err := d.Read(ByFlow); err != nil || len(rows) != 0 || len(d.takeFlows(t)) != 0 || d.expired != flows {
		t.Errorf("%d rows, %v; %d flows expired", len(rows), err, d.expired)
	}
}

// TestCountsAreExactOnSeveralProcessors: two flows whose packets arrive on several
// processors while they are read. Rows add up to what was sent, histograms included.
func TestCountsAreExactOnSeveralProcessors(t *testing.T) {
	for _, row := range []struct {
		name       string
		slots      int
		stampEvery int
	}{
		{"every packet stamped", 0, 1},
		{"1 in 16 stamped", 0, 16},
		{"1 in 16 stamped, one slot for both", 1, 16},
	} {
		t.Run(row.name, func(t *testing.T) { countOnSeveralProcessors(t, row.slots, row.stampEvery) })
	}
}

func countOnSeveralProcessors(t *testing.T, slots, stampEvery int) {
	const senders, flows, packets = 4, 2, 6000 // of each flow
	d := openTC(t, Settings{slots: slots})
	frames := make([][]byte, flows*packets)
	stamped := uint64(0)
	for i := range frames {
		mark := codec.Mark{Modules: wire.Loss, Single: true, Sequence: uint32(i / flows)}
		if i/flows%stampEvery == 0 {
			mark.Modules, mark.Ticks = mark.Modules|wire.Delay, codec.TicksOf(time.Now())
			stamped++
		}
		frames[i] = optionMark(t, uint16(7+i%flows), mark)
	}
	var next atomic.Int32
	var wait sync.WaitGroup
	for range senders {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(frames); i = int(next.Add(1)) - 1 {
				if _, _, err := tryRun(d.objects.DestinationTc, frames[i], 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wait.Wait(); close(done) }()
	var sum Counts
	var delays, variations uint64
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		rows, err := d.Read(ByFlow)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			delay, variation := row.Histograms()
			if row.Delay.Count != delay.Total() || row.Variation.Count != variation.Total() || row.Delay.Min > row.Delay.Max {
				t.Errorf("%d of %d delays and %d of %d variations are in histograms", delay.Total(), row.Delay.Count, variation.Total(), row.Variation.Count)
			}
			sum.add(row.Counts)
			delays, variations = delays+delay.Total(), variations+variation.Total()
		}
	}
	for _, s := range d.flows {
		sum.Lost -= s.owed
	}
	tally := d.mustTally(t)
	if sum.Packets+tally.Contended != flows*packets || tally.Packets != flows*packets || tally.Restored != flows*packets {
		t.Errorf("flows have %d packets of %d, the tally %+v", sum.Packets, flows*packets, tally)
	}
	if sum.Packets != sum.Expected-sum.Lost+sum.Late || sum.Duplicated+sum.Restarts > 0 {
		t.Errorf("packets are not expected - lost + late: %+v", sum)
	}
	// A sender may pause for so long that its packet is late, and then has no delay, or
	// with the lock for so long that packets of the other senders are in no flow.
	missed := sum.Late + tally.Contended
	if delays > stamped || delays+missed < stamped || variations != delays-flows || sum.Lost > missed {
		t.Errorf("%+v, %d delays, %d variations of %d stamped packets, %d contended", sum, delays, variations, stamped, tally.Contended)
	}
	if missed == 0 && (sum.Expected != flows*packets || tally.Bytes != sum.Bytes) {
		t.Errorf("%+v of %d packets and %d bytes", sum, flows*packets, tally.Bytes)
	}
}
