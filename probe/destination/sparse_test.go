package destination

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// sparseFlow sends packets of a flow of which only some carry a mark.
type sparseFlow struct {
	t        *testing.T
	program  *ebpf.Program
	tags     []uint16
	encoding wire.Encoding
	plain    []byte
	first    uint32
}

// arrive sends one packet with this number, counted from the first.
func (s *sparseFlow) arrive(number int, marked bool) {
	s.t.Helper()
	packet := s.plain
	if marked {
		mark := codec.Mark{Modules: wire.Delay | wire.Loss, Sparse: true, Single: true, Sequence: (s.first + uint32(number)) & wire.SequenceMask}
		if codec.HasTicks(s.encoding) {
			mark.Ticks = 1
		} else {
			mark.Sent = 1 << 32
		}
		var err error
		if packet, err = codec.Insert(s.plain, s.encoding, mark, wire.Port); err != nil {
			s.t.Fatal(err)
		}
	}
	run(s.t, s.program, frame(packet, s.tags...), 0)
}

// originalOf is the first golden packet with this name, unmarked.
func originalOf(t *testing.T, name string) []byte {
	t.Helper()
	for _, v := range golden(t) {
		if v.Name == name {
			return v.Original
		}
	}
	t.Fatalf("there is no vector %q", name)
	return nil
}

// sparseWays are encodings, each with a packet.
func sparseWays(t *testing.T) map[wire.Encoding][]byte {
	return map[wire.Encoding][]byte{
		wire.Native: originalOf(t, "native delay ipv6 tcp"), wire.Shim: originalOf(t, "shim delay ipv4 tcp"),
		wire.IPIP: originalOf(t, "ipip delay ipv4 udp"), wire.UDP: originalOf(t, "udp delay ipv4 udp"),
		wire.UDPOption: originalOf(t, "udp-option delay ipv6 udp"), wire.TCPOption: originalOf(t, "tcp-option delay ipv4 timestamps"),
	}
}

// optionFrame is a packet of another flow.
func optionFrame(t *testing.T) []byte {
	t.Helper()
	return frame(optionMark(t, 4242, codec.Mark{Modules: wire.Loss, Single: true, Sequence: 1 << 16}))
}

// checkSparse reads the row of a packet's flow, and removes all flows. What came behind the
// last mark is in the tally alone.
func checkSparse(t *testing.T, d *Destination, before Tally, want Counts, plain []byte) {
	t.Helper()
	rows, err := d.Read(ByFlow)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Key != keyOf(plain) {
			continue
		}
		if want.Bytes = want.Packets * uint64(len(plain)); row.Counts != want {
			t.Errorf("got %+v, want %+v", row.Counts, want)
		}
	}
	if got := d.mustTally(t).Packets - before.Packets; got < want.Packets {
		t.Errorf("counted %d packets, %d of them in rows", got, want.Packets)
	}
	d.takeFlows(t)
}

// TestSparseReordering: packets that overtake marks, and marks that are overtaken, are not
// lost; the account of what has arrived is right whenever a mark has come that none overtook.
func TestSparseReordering(t *testing.T) {
	const packets, every, reach = 3000, 7, 30
	d := open(t, Settings{})
	plain := originalOf(t, "udp-option delay ipv6 udp")
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		type sent struct {
			number int
			due    float64
		}
		var order []sent
		var lost uint64
		for i := range packets {
			if i > 0 && i < packets-1 && random.IntN(20) == 0 {
				lost++
				continue
			}
			due := float64(i) + random.Float64()*reach
			if i == 0 || i == packets-1 {
				due = float64(i * 2) // nothing overtakes the first or comes after the last
			}
			order = append(order, sent{i, due})
		}
		slices.SortFunc(order, func(a, b sent) int { return cmp.Compare(a.due, b.due) })
		f := sparseFlow{t, d.objects.DestinationTc, nil, wire.UDPOption, plain, uint32(seed+1) << 16}
		var sum Counts
		for i, p := range order {
			f.arrive(p.number, p.number%every == 0 || p.number == packets-1)
			if i%500 == 0 || i == len(order)-1 {
				rows, err := d.Read(ByFlow)
				if err != nil || len(rows) > 1 {
					t.Fatalf("%d rows, %v", len(rows), err)
				}
				for _, row := range rows {
					sum.add(row.Counts)
				}
			}
		}
		if sum.Packets != packets-lost || sum.Expected != packets || sum.Lost < lost || sum.Duplicated+sum.Reordered+sum.Late != 0 {
			t.Errorf("lost %d, got %+v", lost, sum)
		}
		if tally := d.mustTally(t); tally.Lost != lost { // what was reported too early is taken back here
			t.Errorf("lost %d, the tally says %d", lost, tally.Lost)
		}
		d.takeFlows(t)
		d.total = change{}
	}
}

// TestSparseFlowsOfOthers: what does not belong to a sparse flow stays unmarked.
func TestSparseFlowsOfOthers(t *testing.T) {
	plain := originalOf(t, "udp-option delay ipv4 udp")
	other := bytes.Clone(plain)
	other[21]++ // source port
	fragment := rewritten(plain, 0, 64)
	fragment[6] |= 0x20
	for _, slots := range []int{0, 1} {
		d := open(t, Settings{slots: slots, Peers: Peers{netip.MustParsePrefix("192.0.2.1/32"): {}}})
		f := sparseFlow{t, d.objects.DestinationTc, nil, wire.UDPOption, plain, 1 << 16}
		f.arrive(0, false) // the flow has not begun
		f.arrive(0, true)
		before := d.mustTally(t)
		for _, packet := range [][]byte{other, fragment} {
			run(t, d.objects.DestinationTc, frame(packet), 0)
		}
		if after := d.mustTally(t); after.Packets != before.Packets || after.Unmarked != before.Unmarked+2 {
			t.Errorf("tally went from %+v to %+v", before, after)
		}
		if err := d.Accept(Peers{netip.MustParsePrefix("192.0.2.9/32"): {}}, nil); err != nil {
			t.Fatal(err)
		}
		f.arrive(1, false)
		if after := d.mustTally(t); after.Packets != 1 || after.Unmarked != 4 {
			t.Errorf("no longer a peer: %+v", after)
		}
		d.takeFlows(t)
	}
}

// TestSparseRestart: numbers that begin again, and a flow of which all packets carry a mark
// from now on.
func TestSparseRestart(t *testing.T) {
	plain := originalOf(t, "udp-option delay ipv4 udp")
	d := open(t, Settings{})
	f := sparseFlow{t, d.objects.DestinationTc, nil, wire.UDPOption, plain, 1 << 16}
	for i := range 10 {
		f.arrive(i, i%3 == 0)
	}
	f.first = 9 << 16
	for i := range 10 {
		f.arrive(i, i%3 == 0)
	}
	checkSparse(t, d, Tally{}, Counts{Packets: 20, Expected: 20, Unchecked: 20, Restarts: 1}, plain)
	f.arrive(0, true)
	f.arrive(1, false)
	for i := range 5 {
		mark := codec.Mark{Modules: wire.Loss, Single: true, Sequence: 20<<16 + uint32(i)}
		marked, err := codec.Insert(plain, wire.UDPOption, mark, wire.Port)
		if err != nil {
			t.Fatal(err)
		}
		run(t, d.objects.DestinationTc, frame(marked), 0)
	}
	before := d.mustTally(t)
	before.Packets -= 7
	checkSparse(t, d, before, Counts{Packets: 7, Expected: 6, Unchecked: 2, Restarts: 1}, plain)
}

// TestSparseProcessors: several processors count one flow, while it is read.
func TestSparseProcessors(t *testing.T) {
	const rounds, each = 40, 250
	plain := originalOf(t, "udp-option delay ipv6 udp")
	d := open(t, Settings{})
	var sum Counts
	for round := range rounds {
		f := sparseFlow{t, d.objects.DestinationTc, nil, wire.UDPOption, plain, 1 << 16}
		f.arrive(round*(2*each+1), true)
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				for range each {
					run(t, d.objects.DestinationTc, frame(plain), 0)
				}
			})
		}
		rows, err := d.Read(ByFlow)
		if err != nil {
			t.Fatal(err)
		}
		group.Wait()
		for _, row := range rows {
			sum.add(row.Counts)
		}
	}
	rows, err := d.Read(ByFlow)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		sum.add(row.Counts)
	}
	want := Counts{
		Packets: (rounds-1)*(2*each+1) + 1, Expected: (rounds-1)*(2*each+1) + 1, Unchecked: (rounds-1)*(2*each+1) + 1,
	}
	if want.Bytes = want.Packets * uint64(len(plain)); sum != want {
		t.Errorf("got %+v, want %+v", sum, want)
	}
}
