package emulator

import (
	"encoding/binary"
	"math"
	"reflect"
	"testing"
	"time"
)

// step is the fate of one packet without the clock: lost, or when each copy is due after
// it was read.
type step struct {
	lost bool
	due  []int64
}

// through passes count UDP packets, spacing apart, to a direction that never runs, and
// returns their fates. With control, ARP frames are interleaved.
func through(f Faults, seed uint64, count int, spacing time.Duration, control bool) ([]step, *direction) {
	d := &direction{dice: newDice(seed, 0), faults: f, frameSize: 200, frameLimit: 1 << 20, flows: newFlows(8)}
	steps := make([]step, count)
	at := func(n int) int64 { return int64(n+1) * int64(spacing) }
	for n := range count {
		if control && n%3 == 0 {
			arp := &frame{buffer: ether(0x0806, make([]byte, 28)...), size: 42, read: at(n)}
			d.accept(arp)
		}
		payload := binary.BigEndian.AppendUint64([]byte{0, 1, 0, 2, 0, 16, 0, 0}, uint64(n))
		packet := ether(etherIPv4, ipv4(17, payload...)...)
		fr := &frame{buffer: append(packet, make([]byte, 100)...), size: 100, read: at(n)}
		d.accept(fr)
		steps[n].lost = fr.lost
	}
	for !d.line.empty() {
		p := d.line.pop()
		if p.frame.flow != nil {
			n := p.frame.index
			steps[n].due = append(steps[n].due, p.due-p.frame.read)
		}
	}
	return steps, d
}

func TestSeedDecidesFates(t *testing.T) {
	f := DefaultFaults()
	f.Delay, f.Jitter = Duration(5*time.Millisecond), Duration(time.Millisecond)
	f.Loss, f.Duplicate, f.Reorder = 0.1, 0.1, 0.1
	first, _ := through(f, 7, 2000, time.Microsecond, false)
	again, _ := through(f, 7, 2000, time.Microsecond, true)
	if !reflect.DeepEqual(first, again) {
		t.Error("control frames changed the fates")
	}
	if other, _ := through(f, 8, 2000, time.Microsecond, false); reflect.DeepEqual(first, other) {
		t.Error("another seed gave the same fates")
	}
	calm, err := f.Apply(Calm())
	if err != nil {
		t.Fatal(err)
	}
	quiet, _ := through(calm, 7, 2000, time.Microsecond, false)
	for n, s := range quiet {
		if s.lost || len(s.due) != 1 {
			t.Fatalf("packet %d of a calm link: %+v", n, s)
		}
		if !first[n].lost && s.due[0] != first[n].due[0] && s.due[0]+int64(f.ReorderGap) != first[n].due[0] {
			t.Fatalf("packet %d has different jitter on a calm link: %+v, before %+v", n, s, first[n])
		}
	}
}

// The oracle is the binomial distribution: five standard deviations.
func TestProbabilities(t *testing.T) {
	const count = 20000
	f := DefaultFaults()
	f.Delay, f.Loss, f.Duplicate, f.Reorder = Duration(time.Second), 0.02, 0.01, 0.05
	steps, d := through(f, 1, count, time.Nanosecond, false)
	var lost, duplicated, held float64
	for _, s := range steps {
		if s.lost {
			lost++
			continue
		}
		if len(s.due) == 2 {
			duplicated++
		}
		if s.due[0] > int64(f.Delay) {
			held++
		}
	}
	kept := count - lost
	check := func(what string, got, n, p float64) {
		if math.Abs(got-n*p) > 5*math.Sqrt(n*p*(1-p)) {
			t.Errorf("%s: got %g of %g, want about %g", what, got, n, n*p)
		}
	}
	check("lost", lost, count, 0.02)
	check("duplicated", duplicated, kept, 0.01)
	check("held back", held, kept, 0.05)
	if flow := d.flows.list[0]; flow.offered != flow.inFlight+flow.lost[lostRandom] {
		t.Errorf("account is not closed: %+v", flow.counts)
	}
}

// The oracle is the uniform distribution: its mean, and no value outside.
func TestJitterIsUniform(t *testing.T) {
	f := DefaultFaults()
	f.Delay, f.Jitter = Duration(time.Millisecond), Duration(200*time.Microsecond)
	steps, _ := through(f, 3, 20000, time.Microsecond, false)
	var below, sum float64
	for _, s := range steps {
		extra := float64(s.due[0]) - float64(f.Delay)
		if math.Abs(extra) > float64(f.Jitter) {
			t.Fatalf("jitter of %g ns is out of range", extra)
		}
		if extra < -float64(f.Jitter)/2 {
			below++
		}
		sum += extra
	}
	if mean := sum / 20000; math.Abs(mean) > 5*float64(f.Jitter)/math.Sqrt(3*20000) {
		t.Errorf("mean jitter is %g ns, want about 0", mean)
	}
	if math.Abs(below-5000) > 5*math.Sqrt(20000*0.25*0.75) {
		t.Errorf("%g of 20000 are in the lowest quarter", below)
	}
}

func TestRateSerialises(t *testing.T) {
	tests := map[string]struct {
		queue   string
		spacing time.Duration
		want    []int64 // µs until the frame has left, -1 for lost
	}{
		"alone":            {"1000", time.Second, []int64{800, 800, 800}},
		"back to back":     {"1000", 0, []int64{800, 1600, 2400, 3200}},
		"half as fast":     {"1000", 400 * time.Microsecond, []int64{800, 1200, 1600}},
		"queue of two":     {"2", 0, []int64{800, 1600, -1, -1}},
		"queue of a few B": {"250B", 0, []int64{800, 1600, -1}},
		"queue drains":     {"1", 500 * time.Microsecond, []int64{800, -1, 800, -1, 800}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := DefaultFaults()
			f.Rate = 1_000_000 // 100 bytes take 800 µs
			if err := f.Queue.UnmarshalText([]byte(test.queue)); err != nil {
				t.Fatal(err)
			}
			steps, _ := through(f, 1, len(test.want), test.spacing, false)
			for n, s := range steps {
				got := int64(-1)
				if !s.lost {
					got = s.due[0] / 1000
				}
				if got != test.want[n] {
					t.Errorf("packet %d: got %d µs, want %d", n, got, test.want[n])
				}
			}
		})
	}
}

func TestFlowTableIsBounded(t *testing.T) {
	table := newFlows(2)
	for port := range uint16(5) {
		table.find(key{protocol: 17, destinationPort: port}).offer()
		table.find(key{protocol: 17, destinationPort: port, marked: true}).offer()
	}
	if len(table.list) != 4 || !table.list[2].other || table.list[2].offered != 4 || table.list[3].offered != 4 {
		t.Errorf("got %d flows: %+v", len(table.list), table.list[2:])
	}
}

func TestApplyRefusesJitterBeyondDelay(t *testing.T) {
	jitter := Duration(2)
	if _, err := DefaultFaults().Apply(Change{Jitter: &jitter}); err == nil {
		t.Error("no error for packets that leave before they arrive")
	}
}
