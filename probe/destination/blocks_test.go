package destination

import (
	"fmt"
	"testing"
	"time"

	"pillion.dev/internal/clock"
	"pillion.dev/probe/block"
	"pillion.dev/probe/flow"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// blockBench sends marks of Alternate Marking at times that it chooses.
type blockBench struct {
	*Destination
	t      *testing.T
	packet []byte
	offset time.Duration
	now    time.Time // at the destination
}

func newBlockBench(t *testing.T, settings Settings) *blockBench {
	t.Helper()
	b := &blockBench{Destination: open(t, settings), t: t, now: time.Unix(1_700_000_000, 0)}
	for _, v := range golden(t) {
		if v.Name == "altmark ipv6 udp" {
			b.packet = v.Original
		}
	}
	var err error
	if b.offset, err = clock.MonotonicOffset(); err != nil {
		t.Fatal(err)
	}
	return b
}

// set sets the destination's clock.
func (b *blockBench) set(now time.Time) {
	b.t.Helper()
	b.now = now
	ahead := time.Until(now) // of the program's clock
	if err := b.objects.MonotonicOffsetNs.Set(uint64(b.offset + ahead)); err != nil {
		b.t.Fatal(err)
	}
}

// frame is a packet of a block.
func (b *blockBench) frame(number uint64, first bool, changes ...func(*codec.Mark)) []byte {
	b.t.Helper()
	m := codec.Mark{Block: codec.AltMark{Flow: 0xabcde, Loss: number&1 == 1, Delay: first}}
	for _, change := range changes {
		change(&m)
	}
	marked, err := codec.Insert(b.packet, wire.AltMark, m, wire.Port)
	if err != nil {
		b.t.Fatal(err)
	}
	return frame(marked)
}

// arrive lets a packet of a block arrive.
func (b *blockBench) arrive(at time.Time, number uint64, first bool, segments int) {
	b.t.Helper()
	b.set(at)
	run(b.t, b.objects.DestinationTc, b.frame(number, first), segments)
}

// clear forgets all blocks, and that they were read.
func (b *blockBench) clear() {
	b.t.Helper()
	var keys []destinationModuleKey
	err := each(b.objects.ModuleStates, func(key destinationModuleKey, _ *destinationModuleState) { keys = append(keys, key) })
	if err != nil {
		b.t.Fatal(err)
	}
	for _, key := range keys {
		if err := b.objects.ModuleStates.Delete(key); err != nil {
			b.t.Fatal(err)
		}
	}
	b.blocks = newBlocks(b.settings)
}

// read returns the blocks that are over, by number.
func (b *blockBench) read(at time.Time) (map[uint64]block.Count, block.Span) {
	b.t.Helper()
	counts, span, err := b.blocks.reader.Read(b.objects.ModuleStates, at, b.blocks.period)
	if err != nil {
		b.t.Fatal(err)
	}
	byNumber := map[uint64]block.Count{}
	for _, c := range counts {
		if _, twice := byNumber[c.Number]; twice {
			b.t.Errorf("block %d twice", c.Number)
		}
		if c.Key != keyOf(b.packet) {
			b.t.Errorf("flow %+v", c.Key)
		}
		byNumber[c.Number] = c
	}
	return byNumber, span
}

// TestBlocks: a packet is counted in the block of its colour that is nearest to its arrival. If
// that is a quarter of a block or more outside of the block, it says so.
func TestBlocks(t *testing.T) {
	const number = 1_700_000_010
	b := newBlockBench(t, Settings{})
	for _, row := range []struct {
		at       float64 // of arrival, in blocks from the beginning of the packet's block
		want     uint64
		doubtful bool
	}{
		{0.01, number, false}, {0.5, number, false}, {0.95, number, false},
		{1.01, number, false}, {1.2, number, false}, {1.26, number, true}, {1.45, number, true},
		{1.51, number + 2, true}, {1.7, number + 2, true}, {1.76, number + 2, false},
		{-0.05, number, false}, {-0.24, number, false}, {-0.3, number, true}, {-0.49, number, true},
		{-0.55, number - 2, true}, {-0.8, number - 2, false},
	} {
		for _, segments := range []int{0, 3} {
			t.Run(fmt.Sprint(row.at, " ", segments), func(t *testing.T) {
				b.clear()
				at := time.Unix(number, 0).Add(time.Duration(row.at * float64(time.Second)))
				packets := uint64(max(1, segments))
				b.arrive(at, number, true, segments)
				b.arrive(at, number, true, segments) // a copy: D counts once
				counts, _ := b.read(time.Unix(int64(row.want)+2, 0))
				c := counts[row.want]
				if len(counts) != 1 || c.Packets != 2*packets || (c.Doubtful != 0) != row.doubtful {
					t.Fatalf("%+v", counts)
				}
				if off := c.Marked.Sub(at); off < 0 || off > 40*time.Millisecond {
					t.Errorf("D at %v, want %v", c.Marked, at)
				}
				f := b.takeFlow(t)
				if f.Packets != 2*packets || f.Bytes != 2*uint64(len(b.packet)) || f.Window.Begun != 0 || f.Delays != 0 {
					t.Errorf("flow of %d packets, %d bytes, window %d, %d delays", f.Packets, f.Bytes, f.Window.Begun, f.Delays)
				}
			})
		}
	}
}

// TestBlocksOfClocksApart: packets all over blocks, from a source whose clock is off.
func TestBlocksOfClocksApart(t *testing.T) {
	const first, blocks, each = 1_700_000_020, 2, 50
	b := newBlockBench(t, Settings{})
	for _, row := range []struct {
		name     string
		apart    time.Duration // the destination's clock is ahead
		doubtful bool
	}{
		{"none", 0, false}, {"almost a quarter ahead", 240 * time.Millisecond, false}, {"almost a quarter behind", -240 * time.Millisecond, false},
		{"half ahead", 500 * time.Millisecond, true}, {"half behind", -500 * time.Millisecond, true},
		{"three quarters ahead", 750 * time.Millisecond, true}, {"a whole one behind", -time.Second, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			b.clear()
			for n := range uint64(blocks) {
				for i := range each {
					sent := time.Unix(int64(first+n), int64(i)*int64(time.Second/each))
					b.arrive(sent.Add(row.apart), first+n, i == 0, 0)
				}
			}
			counts, _ := b.read(time.Unix(first+blocks+1, 400e6))
			for number, c := range counts {
				if row.doubtful && c.Doubtful == 0 {
					t.Errorf("block %d is not doubted: %+v", number, c)
				}
				if !row.doubtful && (c.Doubtful != 0 || c.Packets != each || number < first || number >= first+blocks) {
					t.Errorf("block %d: %+v", number, c)
				}
			}
			if len(counts) == 0 || !row.doubtful && len(counts) != blocks {
				t.Errorf("%d blocks", len(counts))
			}
		})
	}
}

// TestBlockCollected: no block is read twice or left out while readings are not more than two
// blocks apart, and what a later one misses is known. A block that is not over stays.
func TestBlockCollected(t *testing.T) {
	const first, blocks = 1_700_000_030, 40
	b := newBlockBench(t, Settings{})
	begin := time.Unix(first, 0)
	next := begin.Add(1900 * time.Millisecond) // of a reading
	gaps := []time.Duration{time.Second, 300 * time.Millisecond, 1990 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond}
	read := map[uint64]uint64{}
	var last block.Span
	for n := range uint64(blocks) {
		for i := range 4 {
			at := begin.Add(time.Duration(n)*time.Second + time.Duration(i)*250*time.Millisecond)
			for ; next.Before(at); next = next.Add(gaps[len(read)%len(gaps)]) {
				counts, span := b.read(next)
				if last != (block.Span{}) && span.Last >= span.First && span.First != last.Last+1 {
					t.Errorf("span %+v behind %+v", span, last)
				}
				if span.Last >= span.First {
					last = span
				}
				for number, c := range counts {
					if c.End().After(next) || read[number] != 0 {
						t.Errorf("block %d of %d packets at %v, before %d", number, c.Packets, next, read[number])
					}
					read[number] += c.Packets
				}
			}
			b.arrive(at, first+n, i == 0, 0)
		}
	}
	for number := uint64(first); number <= last.Last; number++ {
		if read[number] != 4 {
			t.Errorf("block %d: %d packets", number, read[number])
		}
	}
	if b.blocks.reader.Missed != 0 || last.Last < first+blocks-5 {
		t.Errorf("%d missed, the last is %d", b.blocks.reader.Missed, last.Last-first)
	}
	// A reading that comes far too late finds the last four, and counts the others.
	for n := range uint64(10) {
		b.arrive(begin.Add(time.Duration(blocks+n)*time.Second), first+blocks+n, true, 0)
	}
	counts, span := b.read(begin.Add((blocks + 11) * time.Second))
	if missed := b.blocks.reader.Missed; span.First <= last.Last+1 || missed != span.First-last.Last-1 {
		t.Errorf("%d missed, span %+v behind %+v", missed, span, last)
	}
	for number := range counts {
		if number < span.First {
			t.Errorf("block %d before %+v", number, span)
		}
	}
}

// TestBlocksAreForgotten: a flow without packets leaves the table of states.
func TestBlocksAreForgotten(t *testing.T) {
	const number = 1_700_000_090
	b := newBlockBench(t, Settings{})
	b.arrive(time.Unix(number, 0), number, true, 0)
	for _, row := range []struct {
		after time.Duration
		want  int
	}{{5 * time.Second, 1}, {DefaultIdle, 1}, {DefaultIdle + 9*time.Second, 0}} {
		b.read(time.Unix(number, 0).Add(row.after))
		states := 0
		if err := each(b.objects.ModuleStates, func(destinationModuleKey, *destinationModuleState) { states++ }); err != nil {
			t.Fatal(err)
		}
		if states != row.want {
			t.Errorf("%d states after %v", states, row.after)
		}
	}
}

// TestForgedBlocks: the tag covers the option; what others write in it counts in no block, and stays.
func TestForgedBlocks(t *testing.T) {
	b := newBlockBench(t, Settings{Peers: Peers{{}: {Keys: []wire.Key{pairKey}}}})
	tagged := func(m *codec.Mark) {
		var err error
		if *m, err = codec.Tag(b.packet, wire.AltMark, *m, codec.Key(pairKey), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	other := func(m *codec.Mark) { m.Block.Loss = !m.Block.Loss }
	for hook := range hooks[:2] {
		for _, row := range []struct {
			name string
			in   []byte
			want string
		}{
			{"right", b.frame(7, true, tagged), "marked"},
			{"no tag", b.frame(7, true), "forged"},
			{"other colour", b.frame(7, true, tagged, other), "forged"},
			{"other flow", b.frame(7, true, tagged, func(m *codec.Mark) { m.Block.Flow++ }), "forged"},
			{"no delay", b.frame(7, true, tagged, func(m *codec.Mark) { m.Block.Delay = false }), "forged"},
		} {
			if got := b.verdict(t, hook, row.in); got != row.want {
				t.Errorf("%s, %s: %s, want %s", hooks[hook].name, row.name, got, row.want)
			}
		}
	}
	counts, err := b.stateCounts()
	if err != nil || counts != 2 {
		t.Errorf("%d packets are in blocks, %v", counts, err)
	}

	foreign := newBlockBench(t, Settings{})
	in := foreign.frame(7, true)
	in[14+40+7] |= 1 // a reserved bit
	if out := run(t, foreign.objects.DestinationTc, in, 0); string(out) != string(in) {
		t.Errorf("an option of another writer was changed:\nin  %x\nout %x", in, out)
	}
	if counts, err := foreign.stateCounts(); err != nil || counts != 0 || foreign.mustTally(t).Kept != 1 {
		t.Errorf("%d packets of another writer are in blocks, %v, %+v", counts, err, foreign.mustTally(t))
	}
}

// stateCounts adds up the packets in all blocks.
func (b *blockBench) stateCounts() (packets uint64, err error) {
	return packets, each(b.objects.ModuleStates, func(_ destinationModuleKey, s *destinationModuleState) {
		for _, count := range s.Words[:4] {
			packets += count & 0xffffffff
		}
	})
}

// TestSettleBlocks: what the source sent in a block, less what arrived, is lost; more is duplicated.
func TestSettleBlocks(t *testing.T) {
	const number = 1000
	key := flow.Key{Protocol: 17, Sport: 1}
	sent := time.Unix(number, 0)
	for _, row := range []struct {
		name      string
		sent      uint64
		arrived   *arrived
		change    func(*blocks, *BlockReport)
		doubtful  bool
		want      Counts
		announced uint64
		delays    uint64
		unsettled uint64
	}{
		{name: "all", sent: 5, arrived: &arrived{Count: block.Count{Packets: 5, Marked: sent.Add(7)}}, want: Counts{Expected: 5, Unchecked: 5}, delays: 1},
		{name: "lost", sent: 5, arrived: &arrived{Count: block.Count{Packets: 3}}, want: Counts{Expected: 5, Unchecked: 3, Lost: 2}},
		{name: "duplicated", sent: 5, arrived: &arrived{Count: block.Count{Packets: 8}}, want: Counts{Expected: 5, Unchecked: 8, Duplicated: 3}},
		{name: "all lost", sent: 5, want: Counts{Expected: 5, Lost: 5}, announced: 5},
		{name: "not known", sent: 5, doubtful: true, unsettled: 5},
		{name: "doubtful block", sent: 5, arrived: &arrived{Count: block.Count{Packets: 3, Doubtful: 1}}, unsettled: 5},
		{name: "twice", sent: 5, arrived: &arrived{Count: block.Count{Packets: 3}, settled: true}},
		{name: "before the first", sent: 5, change: func(b *blocks, _ *BlockReport) { b.first = number + 1 }, unsettled: 5},
		{name: "not over", sent: 5, change: func(b *blocks, _ *BlockReport) { b.last = number - 1 }, unsettled: 5},
		{name: "not whole", sent: 5, change: func(_ *blocks, r *BlockReport) { r.Whole = false }, unsettled: 5},
		{name: "other length", sent: 5, change: func(_ *blocks, r *BlockReport) { r.Period = time.Minute }, unsettled: 5},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBlocks(Settings{})
			b.last = number + 1
			if row.arrived != nil {
				row.arrived.Key, row.arrived.Number = key, number
				b.arrived[number] = map[flow.Raw]*arrived{flow.RawOf(key): row.arrived}
			}
			report := &BlockReport{Count: block.Count{Key: key, Period: block.Default, Number: number, Packets: row.sent, Marked: sent}, Whole: true}
			if row.change != nil {
				row.change(b, report)
			}
			got := b.settle(report, row.doubtful)
			if got == nil {
				got = &change{}
			}
			if got.Counts != row.want || got.announced != row.announced || got.delay.count != row.delays || b.unsettled != row.unsettled {
				t.Errorf("%+v, announced %d, %d delays, unsettled %d", got.Counts, got.announced, got.delay.count, b.unsettled)
			}
			if row.delays != 0 && got.delay.min != 7 {
				t.Errorf("delay %d", got.delay.min)
			}
			if again := b.settle(report, row.doubtful); row.want != (Counts{}) && again != nil {
				t.Errorf("again %+v", again.Counts)
			}
		})
	}
}

// TestBlocksWaitForReports: counts wait for as long as reports may come, and for so many at most.
func TestBlocksWaitForReports(t *testing.T) {
	b := newBlocks(Settings{})
	now := time.Unix(2000, 0)
	for number := uint64(1800); number < 2000; number++ {
		b.hold(block.Count{Key: flow.Key{Sport: uint16(number)}, Number: number})
	}
	b.last = 1999
	b.forget(now)
	if b.first != 1909 || b.held != 91 {
		t.Errorf("first %d, %d held", b.first, b.held)
	}
	for i := range blocksMost + 1 {
		b.hold(block.Count{Key: flow.Key{Sport: uint16(i), Dport: uint16(i >> 16)}, Number: 1999})
	}
	b.forget(now)
	if b.first != 2000 || b.held != 0 {
		t.Errorf("first %d, %d held", b.first, b.held)
	}
}
