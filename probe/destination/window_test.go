package destination

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// arrival is what comes at once: packets with one sequence field.
type arrival struct {
	first  uint32
	single bool
	count  int
}

// counts are those of a window.
type counts struct {
	expected, lost, duplicated, reordered, late, restarts uint64
}

// deliver sends marks to the real program and returns what its window says.
func deliver(t *testing.T, d *Destination, arrivals []arrival) counts {
	t.Helper()
	original := golden(t)[0].Original
	var packets uint64
	for _, a := range arrivals {
		mark := codec.Mark{Modules: wire.Loss, Sequence: a.first, Single: a.single}
		marked, err := codec.Insert(original, wire.Native, mark, wire.Port)
		if err != nil {
			t.Fatal(err)
		}
		run(t, d.objects.DestinationTc, frame(marked), a.count)
		packets += uint64(max(a.count, 1))
	}
	f := d.takeFlow(t)
	w := f.Window
	if f.Packets != packets || w.Unique+w.Duplicated+w.Late != packets {
		t.Errorf("of %d packets the flow has %d; %d unique + %d duplicated + %d late",
			packets, f.Packets, w.Unique, w.Duplicated, w.Late)
	}
	if w.Unique > w.Expected {
		t.Errorf("%d unique packets of %d expected", w.Unique, w.Expected)
	}
	return counts{w.Expected, w.Expected - w.Unique, w.Duplicated, w.Reordered, w.Late, w.Restarts}
}

// singles are packets that left alone, as offsets from base.
func singles(base uint32, offsets ...int) []arrival {
	var arrivals []arrival
	for _, o := range offsets {
		arrivals = append(arrivals, arrival{(base + uint32(o)) & wire.SequenceMask, true, 1})
	}
	return arrivals
}

func span(from, to int) []int {
	var numbers []int
	for i := from; i < to; i++ {
		numbers = append(numbers, i)
	}
	return numbers
}

func TestSequenceWindow(t *testing.T) {
	const base, last = 0x30000, 1<<31 - 0x10000
	rows := []struct {
		name string
		in   []arrival
		want counts
	}{
		{"one", singles(base, 0), counts{expected: 1}},
		{"in order", singles(base, span(0, 100)...), counts{expected: 100}},
		{"one lost", singles(base, 0, 2), counts{expected: 2 + 1, lost: 1}},
		{"first lost", singles(base, 1, 2), counts{expected: 3, lost: 1}},
		{"first reordered", singles(base, 1, 0, 2), counts{expected: 3, reordered: 1}},
		{"first 63 lost", singles(base, 63), counts{expected: 64, lost: 63}},
		{"began elsewhere", singles(base, 64), counts{expected: 1}},
		{"began elsewhere, then earlier ones", singles(base, 500, 499, 501, 498),
			counts{expected: 2, late: 2}},
		{"began elsewhere, then below the stride", singles(base+64, 1, 2, -65, 3),
			counts{expected: 3, late: 1}},
		{"duplicate", singles(base, 0, 1, 1, 2), counts{expected: 3, duplicated: 1}},
		{"duplicate of an old one", singles(base, append(span(0, 300), 0)...),
			counts{expected: 300, duplicated: 1}},
		{"duplicate of a reordered one", singles(base, 0, 2, 1, 1),
			counts{expected: 3, duplicated: 1, reordered: 1}},
		{"at the window's far edge", singles(base, append(append([]int{0}, span(2, 1025)...), 1)...),
			counts{expected: 1025, reordered: 1}},
		{"beyond the window", singles(base, append(append([]int{0}, span(2, 1026)...), 1)...),
			counts{expected: 1026, lost: 1, late: 1}},
		{"duplicate beyond the window", singles(base, append(span(0, 1026), 1)...),
			counts{expected: 1026, late: 1}},
		{"gap as long as the window", singles(base, 0, 1024, 1),
			counts{expected: 1025, lost: 1022, reordered: 1}},
		{"gap longer than the window", singles(base, 0, 5000, 4999, 4000, 3000),
			counts{expected: 5001, lost: 4997, reordered: 2, late: 1}},
		{"gap of a whole stride", singles(base, 0, 65536+100),
			counts{expected: 65536 + 101, lost: 65535 + 100}},
		{"wraparound", append(singles(last, span(65530, 65536)...), singles(0, 0, 1, 2)...),
			counts{expected: 9}},
		{"loss over the wraparound", append(singles(last, 65530, 65531), singles(0, 1)...),
			counts{expected: 8, lost: 5}},
		{"reordering over the wraparound", append(append(singles(last, 65534), singles(0, 0)...), singles(last, 65535)...),
			counts{expected: 3, reordered: 1}},
		{"restart above", append(singles(base, 0, 1), singles(base<<3, 0, 1)...),
			counts{expected: 4, restarts: 1}},
		{"restart below", append(singles(base, 0, 1), singles(base>>1&^0xffff, 0, 1)...),
			counts{expected: 4, restarts: 1}},
		{"restart whose first is lost", append(singles(base, 0, 1), singles(base<<3, 1)...),
			counts{expected: 4, lost: 1, restarts: 1}},
		{"straggler of before the restart", slices.Concat(singles(base, 0, 2), singles(base<<3, 0), singles(base, 1), singles(base<<3, 1)),
			counts{expected: 5, lost: 1, late: 1, restarts: 1}},
		{"merged copies of a single", []arrival{{base, true, 3}, {base + 1, true, 1}},
			counts{expected: 2, duplicated: 2}},
	}
	d := open(t, Settings{})
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := deliver(t, d, row.in); got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

func TestSequenceWindowWithBursts(t *testing.T) {
	const base = 0x30000
	b := func(offset, count int) arrival { return arrival{base + uint32(offset), false, count} }
	s := func(offset int) arrival { return arrival{base + uint32(offset), true, 1} }
	rows := []struct {
		name string
		in   []arrival
		want counts
	}{
		{"merged whole", []arrival{b(0, 10), b(10, 5), s(15)}, counts{expected: 16}},
		{"packet by packet", []arrival{b(0, 1), b(0, 1), b(0, 1), s(3)}, counts{expected: 4}},
		{"part of it lost", []arrival{b(0, 7), b(10, 5), s(15)}, counts{expected: 16, lost: 3}},
		{"all of it lost", []arrival{b(0, 10), s(25)}, counts{expected: 26, lost: 15}},
		{"first burst reordered", []arrival{b(10, 5), b(0, 10), s(15)}, counts{expected: 16, reordered: 10}},
		{"end after the next burst", []arrival{b(0, 6), b(10, 5), b(0, 4), s(15)}, counts{expected: 16, reordered: 4}},
		{"two interleaved", []arrival{b(0, 1), b(3, 1), b(0, 1), b(3, 1), b(0, 1), s(5)},
			counts{expected: 6, reordered: 2}},
		{"duplicated, next known", []arrival{b(0, 3), s(3), b(0, 3), s(4)}, counts{expected: 5, duplicated: 3}},
		{"duplicated, next not known yet", []arrival{b(0, 3), b(0, 3), s(3), s(4), s(5), s(6)},
			counts{expected: 7, duplicated: 3}},
		{"duplicated, then another burst", []arrival{b(0, 3), b(0, 3), b(3, 4), s(7)},
			counts{expected: 8, duplicated: 3}},
		{"half lost, half duplicated", []arrival{b(0, 2), b(0, 2), s(4)}, counts{expected: 5}},
		{"excess over several that come late", []arrival{b(0, 8), s(4), s(3), s(5), s(6), s(7), s(2), s(8)},
			counts{expected: 9, duplicated: 6, reordered: 2}},
		{"excess given back and lost", []arrival{b(0, 4), s(2), s(4)}, counts{expected: 5, lost: 1, duplicated: 2}},
		{"burst beyond the window", []arrival{b(0, 2), s(3000), b(2, 3)}, counts{expected: 3001, lost: 2998, late: 3}},
		{"longest burst", []arrival{b(0, 1000), b(1000, 1000), b(2000, 1000), s(3000)}, counts{expected: 3001}},
		{"single as one packet of none", []arrival{s(0), b(1, 1), b(1, 1), s(3)}, counts{expected: 4}},
		// Four of the first burst's seven arrived before the first one here: they are not lost.
		{"joined inside a burst", []arrival{b(500, 3), b(507, 4), b(511, 2), s(514)},
			counts{expected: 11, lost: 1}},
		{"began in the middle of a burst", []arrival{b(500, 3), b(500, 4), s(507), b(490, 2)}, counts{expected: 8, late: 2}},
	}
	d := open(t, Settings{})
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := deliver(t, d, row.in); got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

// shake loses, repeats and delays packets, none by more than depth places.
func shake(random *rand.Rand, sent []arrival, lose, repeat float64, depth int) []arrival {
	type placed struct {
		arrival
		at int
	}
	var on []placed
	for i, a := range sent {
		if random.Float64() < lose {
			continue
		}
		for copies := 1; copies > 0; copies-- {
			at := i
			if random.Float64() < 0.1 {
				at += random.IntN(depth)
			}
			on = append(on, placed{a, at})
			if copies == 1 && random.Float64() < repeat {
				copies++
			}
		}
	}
	slices.SortStableFunc(on, func(a, b placed) int { return a.at - b.at })
	arrived := make([]arrival, len(on))
	for i := range on {
		arrived[i] = on[i].arrival
	}
	return arrived
}

// TestSequenceWindowAgainstReference has counting by a set as its oracle: it knows all
// that came, and no window.
func TestSequenceWindowAgainstReference(t *testing.T) {
	d := open(t, Settings{})
	for seed := range uint64(16) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			base := random.Uint32() * codec.FlowStride & wire.SequenceMask
			if seed%2 == 0 {
				base = 1<<31 - 0x10000
			}
			start := 0
			if seed%2 == 0 {
				start = 0x10000 - 700 // wraps around on the way
			}
			sent := singles(base, span(start, start+1500)...)
			arrived := shake(random, sent, 0.05, 0.05, 200)
			arrived = append(sent[:1:1], arrived...) // the first comes first
			want := counts{}
			seen := map[uint32]bool{}
			top := uint32(0)
			for _, a := range arrived {
				place := a.first - sent[0].first&wire.SequenceMask
				place &= wire.SequenceMask
				switch {
				case seen[place]:
					want.duplicated++
				case place < top:
					want.reordered++
				}
				seen[place] = true
				top = max(top, place)
			}
			want.expected = uint64(top) + 1
			want.lost = want.expected - uint64(len(seen))
			if got := deliver(t, d, arrived); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestSequenceWindowWithBurstsAgainstReference has counting per first number as its oracle: of a
// burst no more can be unique than there are numbers up to the next first number
// that came; what comes above that is a duplicate.
func TestSequenceWindowWithBurstsAgainstReference(t *testing.T) {
	rows := []struct {
		name         string
		lose, repeat float64
	}{
		{"reordered", 0, 0},
		{"lost", 0.1, 0},
		{"duplicated", 0, 0.1},
		{"lost and duplicated", 0.05, 0.05},
	}
	d := open(t, Settings{})
	for _, row := range rows {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(row.name, ", seed ", seed), func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 2))
				base := random.Uint32() * codec.FlowStride & wire.SequenceMask
				sent, end := burstsOf(random, base)
				arrived := shake(random, sent, row.lose, row.repeat, 200)
				arrived = append(singles(base, 0), arrived...)
				arrived = append(arrived, singles(base, span(end, end+300)...)...)
				want := burstOracle(arrived, base)
				got := deliver(t, d, merge(random, arrived))
				if row.repeat > 0 { // which of two copies came too late is not decided
					got.reordered, want.reordered = 0, 0
				}
				if got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
		}
	}
}

// burstsOf are wire packets of bursts and single packets, and the next number.
func burstsOf(random *rand.Rand, base uint32) ([]arrival, int) {
	var sent []arrival
	next := 1
	for range 120 {
		n := 1
		if random.IntN(3) > 0 {
			n = 2 + random.IntN(43)
		}
		for range n {
			sent = append(sent, arrival{(base + uint32(next)) & wire.SequenceMask, n == 1, 1})
		}
		next += n
	}
	return sent, next
}

// merge puts neighbours of one burst into one buffer here and there.
func merge(random *rand.Rand, packets []arrival) []arrival {
	var merged []arrival
	for _, p := range packets {
		last := len(merged) - 1
		if last >= 0 && !p.single && merged[last].first == p.first && random.IntN(2) == 0 {
			merged[last].count++
			continue
		}
		merged = append(merged, p)
	}
	return merged
}

func burstOracle(arrived []arrival, base uint32) counts {
	var want counts
	came := map[int]int{}
	single := map[int]bool{}
	var starts []int
	top := 0
	for _, a := range arrived {
		place := int((a.first - base) & wire.SequenceMask)
		if place < top {
			want.reordered++
		}
		top = max(top, place)
		if came[place] == 0 {
			starts = append(starts, place)
		}
		came[place]++
		single[place] = a.single
	}
	slices.Sort(starts)
	var unique int
	for i, start := range starts {
		room := 1
		if !single[start] && i+1 < len(starts) {
			room = starts[i+1] - start
		}
		unique += min(came[start], room)
		want.duplicated += uint64(max(0, came[start]-room))
	}
	want.expected = uint64(top) + 1
	want.lost = want.expected - uint64(unique)
	return want
}

// TestSequenceWindowPerFlow interleaves flows that do not share numbers.
func TestSequenceWindowPerFlow(t *testing.T) {
	d := open(t, Settings{})
	flows := map[string]uint32{}
	for round := range uint32(20) {
		for i, v := range golden(t) {
			if v.Encoding != wire.Native || v.Mark.Modules != wire.Loss {
				continue
			}
			name := fmt.Sprint(keyOf(v.Original))
			mark := codec.Mark{Modules: wire.Loss, Single: true, Sequence: flows[name] + uint32(len(name))<<16}
			marked, err := codec.Insert(v.Original, wire.Native, mark, v.Port)
			if err != nil {
				t.Fatalf("vector %d, round %d: %v", i, round, err)
			}
			run(t, d.objects.DestinationXdp, frame(marked), 0)
			flows[name]++
		}
	}
	all := d.takeFlows(t)
	if len(all) != len(flows) {
		t.Errorf("%d flows, want %d", len(all), len(flows))
	}
	for key, f := range all {
		n := uint64(flows[fmt.Sprint(key.Key())])
		if w := f.Window; w.Unique != n || w.Expected != n || w.Reordered+w.Duplicated+w.Restarts != 0 {
			t.Errorf("%+v: %d packets, window %+v", key.Key(), n, w)
		}
	}
}
