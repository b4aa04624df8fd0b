package destination

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// settleBed is a destination, and the reports of one flow's source.
type settleBed struct {
	*testing.T
	d        *Destination
	port     uint16
	start    uint32
	reported uint32 // up to which number
	before   uint32 // start of the series before
	sum      Counts
}

// reportKey is the flow of optionMark.
func reportKey(port uint16) flow.Key {
	packet := rewritten(datagram(), 0, 64)
	return flow.Key{
		Src: netip.AddrFrom4([4]byte(packet[12:16])), Dst: netip.AddrFrom4([4]byte(packet[16:20])), Protocol: packet[9],
		Sport: port, Dport: binary.BigEndian.Uint16(packet[22:]),
	}
}

func (b *settleBed) number(n int) uint32 { return (b.start + uint32(n)) & wire.SequenceMask }

func (b *settleBed) arrive(n, count int, sparse bool) {
	b.Helper()
	mark := codec.Mark{Modules: wire.Delay | wire.Loss, Sparse: sparse, Single: count == 1, Sequence: b.number(n), Ticks: 1}
	run(b.T, b.d.objects.DestinationTc, optionMark(b.T, b.port, mark), count)
}

func (b *settleBed) arriveUnmarked() {
	b.Helper()
	packet := rewritten(datagram(), 0, 64)
	binary.BigEndian.PutUint16(packet[20:], b.port)
	run(b.T, b.d.objects.DestinationTc, frame(packet), 0)
}

func (b *settleBed) report(n int, whole bool) {
	b.Helper()
	next := b.number(n)
	b.d.Settle([]Report{{Key: reportKey(b.port), Start: b.start & wire.SequenceMask, First: b.reported, Next: next, Whole: whole}})
	b.reported = next
}

// read adds up the rows of an interval.
func (b *settleBed) read() {
	b.Helper()
	rows, err := b.d.Read(ByFlow)
	if err != nil {
		b.Fatal(err)
	}
	for _, row := range rows {
		if row.Announced > row.Lost {
			b.Errorf("row %+v of which %d are announced", row.Counts, row.Announced)
		}
		if row.Key.Sport == b.port {
			b.sum.add(row.Counts)
		}
	}
}

// play carries out a script: N or N-M: packets with these numbers arrive; N*M: a burst; sN: a
// mark of a sparse flow, o: a packet of it without one; rN: a report up to N, uN: one of a time
// when nobody read marks here; pN: one of the series before S; |: an interval ends; E: the flow leaves the table; S: it begins
// anew at its source.
func (b *settleBed) play(script string) {
	b.Helper()
	for _, step := range strings.Fields(script) {
		var n, m int
		switch {
		case step == "|":
			b.read()
		case step == "o":
			b.arriveUnmarked()
		case step == "E":
			b.d.settings.Idle = time.Nanosecond
			b.read()
			b.d.settings.Idle = DefaultIdle
		case step == "S":
			b.before = b.start
			b.start += 0x2340000
			b.reported = b.start & wire.SequenceMask
		case scan(step, "s%d", &n):
			b.arrive(n, 1, true)
		case scan(step, "p%d", &n):
			b.d.Settle([]Report{{Key: reportKey(b.port), Start: b.before, First: b.before, Next: b.before + uint32(n), Whole: true}})
		case scan(step, "r%d", &n), scan(step, "u%d", &n):
			b.report(n, step[0] == 'r')
		case scan(step, "%d*%d", &n, &m):
			b.arrive(n, m, false)
		case scan(step, "%d-%d", &n, &m):
			for ; n <= m; n++ {
				b.arrive(n, 1, false)
			}
		case scan(step, "%d", &n):
			b.arrive(n, 1, false)
		default:
			b.Fatalf("step %q", step)
		}
	}
}

func scan(text, format string, into ...any) bool {
	n, err := fmt.Sscanf(text+"\n", format+"\n", into...)
	return err == nil && n == len(into)
}

func TestSettle(t *testing.T) {
	// Lost is what never came, owed what rows say beyond that, since nothing pays it back.
	rows := []struct {
		name, script   string
		packets        uint64
		expected, lost uint64
		owed           uint64
	}{
		{"nothing lost", "0-9 | r10 |", 10, 10, 0, 0},
		{"tail lost", "0-6 | r10 |", 7, 10, 3, 0},
		{"tail lost, and the flow goes on", "0-6 | r10 | 10-19 | r20 |", 17, 20, 3, 0},
		{"tail late, and the flow goes on", "0-6 | r10 | 7-9 10-12 13-19 15 | r22 |", 21, 22, 2, 1},
		{"tail late", "0-6 | r10 | 7-9 |", 10, 10, 0, 3},
		{"part of the tail late", "0-6 | r10 | 8 |", 8, 10, 2, 1},
		{"settled twice", "0-6 | r10 r10 | r10 |", 7, 10, 3, 0},
		{"report behind", "0-9 | r5 |", 10, 10, 0, 0},
		{"whole flow", "r3 |", 0, 3, 3, 0},
		{"whole flow, twice", "r3 | r8 |", 0, 8, 8, 0},
		{"whole flow at first", "r100 | 100-109 | r110 |", 10, 110, 100, 0},
		{"beginning lost", "100-109 | r110 |", 10, 110, 100, 0},
		{"beginning lost, known at once", "r110 100-109 |", 10, 110, 100, 0},
		{"beginning before this destination", "100-109 u110 |", 10, 10, 0, 0},
		{"whole flow before this destination", "u10 |", 0, 0, 0, 0},
		{"a hole between reports and arrivals", "r100 | 300-309 | r310 |", 10, 310, 300, 0},
		{"hole inside", "0-4 8-9 | r10 |", 7, 10, 3, 0},
		{"begins anew", "0-6 | r10 | S 0-4 | r7 |", 12, 17, 5, 0},
		{"begins anew, lost whole", "0-6 | r10 | S r4 | r8 |", 7, 18, 11, 0},
		{"begins anew, lost at first", "0-6 | r10 | S r90 | 90-94 | r95 |", 12, 105, 93, 0},
		{"begins anew, the last report late", "0-6 | r7 | 7-9 | S 0-4 | p12 r7 | p12 |", 15, 19, 4, 0},
		{"begins anew between readings, the last report late", "0-6 | 7-9 S 0-4 | p12 r7 |", 15, 19, 4, 0},
		{"lost whole before it begins anew, reported twice", "r4 | S 0-4 | p4 r5 | p6 |", 5, 11, 6, 0},
		{"begins anew twice between readings", "0-6 | 7-9 S 0-4 S 0-2 | p3 p5 r4 |", 18, 19, 1, 0},
		{"begins anew before the first reading", "0-6 S 0-2 | p7 r4 |", 10, 11, 1, 0},
		{"begins anew twice", "0-6 | r10 | S r4 | S r5 |", 7, 19, 12, 0},
		{"leaves the table, reported late", "0-6 | E r10 |", 7, 10, 3, 0},
		{"leaves the table, nothing lost", "0-9 | E r10 |", 10, 10, 0, 0},
		{"leaves the table, and comes again", "0-6 | r10 | E 10-14 | r16 |", 12, 16, 4, 0},
		{"leaves the table soon after it began", "0-6 | E 7-9 | r12 |", 10, 12, 2, 0},
		{"leaves the table unreported, and comes anew", "0-6 | E S 0-4 | r6 |", 12, 13, 1, 0},
		{"duplicates", "0-6 3 | r10 |", 8, 10, 3, 0},
		{"bursts", "0*4 4*4 | r12 |", 8, 12, 4, 0},
		{"joined inside a burst", "100*4 200*4 | r204 |", 8, 204, 196, 0},
		{"numbers wrap", "0-4 | r65530 | 65530-65545 | r65550 |", 21, 65550, 65529, 0},
		{"numbers wrap in a flow lost at first", "r65540 | 65541-65545 | r65550 |", 5, 65550, 65545, 0},
		{"sparse", "s0 s1 o o s4 | r5 |", 5, 5, 0, 0},
		{"sparse tail arrives", "s0 s1 o o | r4 |", 4, 4, 0, 0},
		{"sparse tail arrives later", "s0 s1 | o o | r4 |", 4, 4, 0, 0},
		{"sparse tail lost", "s0 s1 o o | r9 |", 4, 9, 5, 0},
		{"sparse tail, and the flow goes on", "s0 s1 o o | r6 | o o s9 | r10 |", 7, 10, 3, 0},
		{"sparse, settled twice", "s0 s1 o | r6 | o | r7 | s8 | r9 |", 5, 9, 4, 0},
	}
	d := openTC(t, Settings{})
	var before Tally
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := &settleBed{T: t, d: d, port: uint16(i + 1), start: 0x10000 * uint32(i+1)}
			if strings.Contains(row.name, "wrap") {
				b.start = 0x7fff0000
			}
			b.reported = b.start
			b.play(row.script)
			tally, err := d.Tally()
			if err != nil {
				t.Fatal(err)
			}
			lost := tally.Lost - before.Lost
			before = tally
			got := [...]uint64{b.sum.Packets, b.sum.Expected, lost, b.sum.Lost - lost}
			if want := [...]uint64{row.packets, row.expected, row.lost, row.owed}; got != want {
				t.Errorf("packets, expected, lost and owed: got %v, want %v", got, want)
			}
		})
	}
}

// TestSettleAgainstModel: whatever is lost, late, twice or reported late, everything that was
// sent is expected once, and what never arrives is lost once.
func TestSettleAgainstModel(t *testing.T) {
	const flows, rounds = 400, 12
	random := rand.New(rand.NewPCG(17, 8))
	d := openTC(t, Settings{Flows: 2 * flows})
	type sender struct {
		start, next, reported uint32
		offered, arrived      int
		loss                  float64
		under                 []uint32 // on their way
	}
	senders := make([]sender, flows)
	for i := range senders {
		start := random.Uint32() * codec.FlowStride & wire.SequenceMask
		senders[i] = sender{start: start, next: start, reported: start, loss: []float64{0, 0.3, 0.9, 1}[random.IntN(4)]}
	}
	deliver := func(i int, number uint32) {
		mark := codec.Mark{Modules: wire.Loss, Single: true, Sequence: number & wire.SequenceMask}
		run(t, d.objects.DestinationTc, optionMark(t, uint16(i+1), mark), 0)
		senders[i].arrived++
	}
	var expected, lost uint64
	read := func() {
		rows, err := d.Read(ByFlow)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			expected += row.Expected
			lost += row.Lost
		}
	}
	for range rounds {
		for i := range senders {
			s := &senders[i]
			for _, number := range s.under {
				deliver(i, number)
			}
			s.under = s.under[:0]
			for range random.IntN(5) * random.IntN(2) {
				number := s.next
				s.next++
				s.offered++
				switch {
				case random.Float64() < s.loss:
				case random.IntN(10) == 0:
					s.under = append(s.under, number)
				default:
					deliver(i, number)
				}
			}
		}
		for i := range senders { // of the round before, mostly
			if s := &senders[i]; s.next != s.reported && random.IntN(3) > 0 {
				d.Settle([]Report{{Key: reportKey(uint16(i + 1)), Start: s.start, First: s.reported & wire.SequenceMask, Next: s.next & wire.SequenceMask, Whole: true}})
				s.reported = s.next
			}
		}
		read()
	}
	offered, arrived := 0, 0
	for i := range senders {
		s := &senders[i]
		for _, number := range s.under {
			deliver(i, number)
		}
		d.Settle([]Report{{Key: reportKey(uint16(i + 1)), Start: s.start, First: s.reported & wire.SequenceMask, Next: s.next & wire.SequenceMask, Whole: true}})
		offered += s.offered
		arrived += s.arrived
	}
	read()
	tally, err := d.Tally()
	if err != nil {
		t.Fatal(err)
	}
	if expected != uint64(offered) || tally.Lost != uint64(offered-arrived) {
		t.Errorf("offered %d, arrived %d; expected %d, lost %d, with late ones %d", offered, arrived, expected, tally.Lost, lost)
	}
}

// TestSettleDoubts: marks that are in no flow may be those of a flow that is not known.
func TestSettleDoubts(t *testing.T) {
	b := &settleBed{T: t, d: openTC(t, Settings{StartEmpty: true}), port: 7}
	b.arrive(0, 1, false) // of no peer
	b.report(10, true)
	b.read()
	if b.sum != (Counts{}) || b.d.Unsettled() != 10 {
		t.Errorf("got %+v, %d unsettled", b.sum, b.d.Unsettled())
	}
}

// TestSettleConnections: a TCP connection that goes on is not lost, though no mark of it
// arrives: its options were removed.
func TestSettleConnections(t *testing.T) {
	b := &settleBed{T: t, d: openTC(t, Settings{}), port: 7}
	tcp := reportKey(b.port)
	tcp.Protocol = 6
	for _, report := range []Report{
		{Key: tcp, Start: 0x10000, First: 0x10000, Next: 0x10001, Whole: true},
		{Key: tcp, Start: 0x10000, First: 0x10001, Next: 0x10009, Whole: true},
	} {
		b.d.Settle([]Report{report})
		b.read()
	}
	if b.sum.Lost != 1 || b.d.Unsettled() != 8 {
		t.Errorf("got %+v, %d unsettled", b.sum, b.d.Unsettled())
	}
}
