package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"pillion.dev/internal/clock"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/probe/destination"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

var (
	encodings = slices.DeleteFunc(wire.Encodings(), func(e wire.Encoding) bool { return !e.Applies(wire.ClassIPv4) })
	sets      = []wire.Module{wire.Delay, wire.Loss, wire.Delay | wire.Loss}
)

// standards are the encodings of standards, which mark IPv6.
func standards() []wire.Encoding {
	return slices.DeleteFunc(wire.Encodings(), func(e wire.Encoding) bool { return e.Carries()&wire.CarriesSparse != 0 })
}

// setsOf returns the sets of modules that an encoding serves and for which its marks differ.
func setsOf(e wire.Encoding) []wire.Module {
	if codec.HasBlocks(e) {
		return sets[len(sets)-1:]
	}
	return slices.DeleteFunc(slices.Clone(sets), func(m wire.Module) bool { return !e.Carries().Serves(m) })
}

// checkBlock says that a mark has the colour of a moment between two.
func checkBlock(t *testing.T, m codec.Mark, before, after time.Time) {
	t.Helper()
	if loss := m.Block.Loss; before.Unix()&1 == 1 != loss && after.Unix()&1 == 1 != loss {
		t.Errorf("mark %+v from %v to %v", m.Block, before, after)
	}
}

// encodingFor returns which of an encoding and native a packet gets.
func encodingFor(encoding wire.Encoding, packet []byte) wire.Encoding {
	class := wire.ClassIPv4
	if packet[0]>>4 == 6 {
		class = wire.ClassIPv6
		if packet[6] == 17 {
			class |= wire.ClassUDP
		} else {
			class |= wire.ClassOther
		}
		if packet[6] == 0 { // a Hop-by-Hop header
			class |= wire.ClassExtended
		}
	}
	chosen, _ := wire.EncodingList{encoding, wire.Native}.Choose(class)
	return chosen
}

// each runs a test for every way to mark IPv4; IPv6 is native where that does not apply.
func each(t *testing.T, test func(*testing.T, wire.Encoding, wire.Module)) {
	for _, encoding := range encodings {
		for _, modules := range sets {
			t.Run(fmt.Sprint(encoding, " ", modules), func(t *testing.T) { test(t, encoding, modules) })
		}
	}
}

// TestGoldenOriginalsAreMarked compares each mark with the codec, byte for byte.
func TestGoldenOriginalsAreMarked(t *testing.T) {
	all4and6, err := codec.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	marks := func(t *testing.T, encoding wire.Encoding, modules wire.Module) {
		s := open(t, all(encoding, modules))
		next := map[string]uint32{}
		for _, v := range all4and6 {
			if v.Encoding != wire.Native && v.Encoding != encoding || v.Port != wire.Port {
				continue
			}
			if len(v.Original)+max(v.Encoding.Overhead(modules), encoding.Overhead(modules)) > 1500 {
				continue
			}
			want, in := encodingFor(encoding, v.Original), v.Original
			if v.Encoding == wire.TCPOption {
				if in, err = codec.ReserveTCPOption(v.Original); err != nil {
					t.Fatal(err)
				}
				want = wire.TCPOption
			}
			before := time.Now()
			out := run(t, s.objects.SourceTc, in)
			after := time.Now()
			m := checkMarked(t, out, v.Original, want)
			if codec.HasBlocks(want) {
				checkBlock(t, m, before, after)
				continue
			}
			if m.Modules != modules && (m.Modules != modules&^wire.Delay || want.Carries()&wire.CarriesTime != 0) {
				t.Errorf("%s: modules %v", v.Name, m.Modules)
			}
			if at := m.SentNear(before); m.Modules&wire.Delay != 0 &&
				(at.Before(before.Add(-time.Microsecond)) || at.After(after.Add(time.Microsecond))) {
				t.Errorf("%s: sent %v, not from %v to %v", v.Name, at, before, after)
			}
			if modules&wire.Loss == 0 {
				continue
			}
			name := fmt.Sprint(rawKeyOf(v.Original))
			number, known := next[name]
			begins := m.Sequence%codec.FlowStride == 0 || want.Carries()&wire.CarriesEcho != 0
			if !known && !begins || known && m.Sequence != number || !m.Single {
				t.Errorf("%s: number %d, single %v, want %d (%v)", v.Name, m.Sequence, m.Single, number, known)
			}
			next[name] = codec.Number(want, (m.Sequence+1)&wire.SequenceMask)
		}
	}
	each(t, marks)
	for _, encoding := range standards() {
		for _, modules := range setsOf(encoding) {
			t.Run(fmt.Sprint(encoding, " ", modules), func(t *testing.T) { marks(t, encoding, modules) })
		}
	}
}

// rawKeyOf tells golden flows apart, Hop-by-Hop headers or not.
func rawKeyOf(packet []byte) any {
	if packet[0]>>4 == 6 && packet[6] == 0 {
		at := 48 + 8*int(packet[41])
		packet = append(append([]byte(nil), packet[:40]...), packet[at:]...)
		packet[6] = 17
		if at != 48 {
			packet[6] = 6
		}
	}
	return keyOf(packet)
}

// checkMarked says that a marked packet is what the codec writes, but for the
// source port of the udp encoding, and returns its mark.
func checkMarked(t *testing.T, marked, original []byte, encoding wire.Encoding) codec.Mark {
	t.Helper()
	got, m, was, err := codec.Extract(marked, wire.Port)
	if err != nil || was != encoding {
		t.Fatalf("%x became %x: %v, %v", original, marked, was, err)
	}
	if !bytes.Equal(got, original) {
		t.Fatalf("got  %x\nwant %x", got, original)
	}
	want, err := codec.Insert(original, encoding, m, wire.Port)
	if err != nil {
		t.Fatal(err)
	}
	if encoding == wire.UDP {
		copy(want[20:22], marked[20:22])
	}
	if !bytes.Equal(marked, want) {
		t.Fatalf("got  %x\nwant %x", marked, want)
	}
	return m
}

// otherEnd loads the destination's program. keys: of the source, if its marks carry tags
func otherEnd(t *testing.T, keys map[netip.Prefix]wire.Key) (*ebpf.Program, *ebpf.Map) {
	t.Helper()
	spec, err := ebpf.LoadCollectionSpec("../destination/destination_bpfel.o")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]uint32{"any_peer": 1, "link_length": 14, "strip_options": uint32(destination.StripAlways)} {
		if err := spec.Variables[name].Set(value); err != nil {
			t.Fatal(err)
		}
	}
	for name := range spec.Programs {
		if name != "destination_tc" {
			delete(spec.Programs, name) // nothing runs it, and the kernel takes its time to prove it
		}
	}
	collection, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(collection.Close)
	offset, err := clock.MonotonicOffset()
	if err != nil {
		t.Fatal(err)
	}
	if err := collection.Variables["monotonic_offset_ns"].Set(uint64(offset)); err != nil {
		t.Fatal(err)
	}
	pages := map[string]*ebpf.Map{} // the first of each table of peers
	for _, table := range []string{"peers", "peer_flows"} {
		if pages[table], err = ebpf.NewMap(spec.Maps[table].InnerMap); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pages[table].Close() })
		if err := collection.Maps[table].Put(uint32(0), pages[table]); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range keys {
		words := key.Words()
		peers := pages["peers"]
		peer := make([]uint64, peers.ValueSize()/8)
		peer[0], peer[1], peer[8] = words[0], words[1], 1 // one key, behind the room for four
		if err := peers.Put(uint32(0), peer); err != nil {
			t.Fatal(err)
		}
	}
	return collection.Programs["destination_tc"], collection.Maps["tallies"]
}

// tallyOthers is how many numbers follow the verdicts in a destination's tally.
const tallyOthers = 10

// verdicts adds up what the destination's CPUs counted: marked, unmarked, counted and the
// rejections, which are the first numbers of its tally.
func verdicts(t *testing.T, tallies *ebpf.Map) []uint64 {
	t.Helper()
	var cpus [][]byte
	if err := tallies.Lookup(uint32(0), &cpus); err != nil {
		t.Fatal(err)
	}
	sum := make([]uint64, tallies.ValueSize()/8-tallyOthers)
	for _, cpu := range cpus {
		for i := range sum {
			sum[i] += binary.NativeEndian.Uint64(cpu[8*i:])
		}
	}
	return sum
}

// TestTransparency sends packets of every kind through both ends: each must leave
// the second as it came to the first, and each must be accounted for once.
func TestTransparency(t *testing.T) { transparency(t, false) }

// transparency does so for all combinations of settings, or for each setting in some.
func transparency(t *testing.T, full bool) {
	namespace.NeedRoot(t)
	var sum chain
	pass := func(encoding wire.Encoding, name string, settings Settings, port uint16) {
		t.Run(fmt.Sprint(encoding, " ", name), func(t *testing.T) { sum.pass(t, encoding, settings, port) })
	}
	for i, encoding := range encodings {
		for n, modules := range sets {
			if full || n == i%len(sets) || modules == wire.Delay|wire.Loss {
				pass(encoding, modules.String(), all(encoding, modules), 0)
			}
		}
		// One port, so that flows of which only some packets carry a mark have many.
		const one = 80
		for n, row := range []struct {
			name     string
			settings Settings
			port     uint16
		}{
			{"sparse", sparsely(2, encoding, wire.Native), one}, {"tagged", tagged(all(encoding, wire.Delay|wire.Loss)), 0},
			{"tagged loss", tagged(all(encoding, wire.Loss)), 0}, {"tagged sparse", tagged(sparsely(2, encoding, wire.Native)), one},
		} {
			if full || n == i%4 {
				pass(encoding, row.name, row.settings, row.port)
			}
		}
	}
	for i, encoding := range standards() {
		sets := setsOf(encoding)
		for n, modules := range sets {
			if full || n == i%len(sets) || modules == wire.Delay|wire.Loss {
				pass(encoding, modules.String(), all(encoding, modules), 0)
			}
			if full || n == (i+1)%len(sets) {
				pass(encoding, "tagged "+modules.String(), tagged(all(encoding, modules)), 0)
			}
		}
	}
	t.Logf("%d compared with the codec, %d refused by the kernel before; outcomes %v", sum.compared, sum.refused, sum.outcomes)
	for _, name := range []string{"marked", "counted", "malformed", "multicast", "neighbour", "fragment",
		"existing_option", "extension", "ip_options", "mtu"} {
		if !t.Failed() && sum.outcomes[name] == 0 {
			t.Errorf("no packet ended as %s: %v", name, sum.outcomes)
		}
	}
}

// chain is what became of packets that passed both ends.
type chain struct {
	outcomes          map[string]uint64
	refused, compared int
}

// pass sends packets through a source and a destination. port: of all, or 0 for various ones.
func (c *chain) pass(t *testing.T, encoding wire.Encoding, settings Settings, port uint16) {
	t.Helper()
	const packets = 1500
	s := open(t, settings)
	to, tallies := otherEnd(t, settings.Keys)
	v := variety{rand.New(rand.NewPCG(uint64(encoding), uint64(settings.Modules))), port}
	for sent := 0; sent < packets; {
		packet := v.packet()
		marked, err := tryRun(t, s.objects.SourceTc, packet)
		if err != nil {
			c.refused++ // by the kernel, before the program
			continue
		}
		sent++
		if got := run(t, to, marked); !bytes.Equal(got, packet) {
			t.Fatalf("packet  %x\nmarked  %x\nbecame  %x", packet, marked, got)
		}
		if len(marked) > 1500 && !bytes.Equal(marked, packet) {
			t.Fatalf("a marked packet of %d bytes", len(marked))
		}
		if !bytes.Equal(marked, packet) && compare(t, packet, marked, encoding) {
			c.compared++
		}
	}
	if c.outcomes == nil {
		c.outcomes = map[string]uint64{}
	}
	tally := s.mustTally(t)
	sum := tally.Marked + tally.Counted
	for name, n := range tally.Skipped {
		sum += n
		c.outcomes[name] += n
	}
	c.outcomes["marked"] += tally.Marked
	c.outcomes["counted"] += tally.Counted
	if tally.Seen != packets || sum != packets {
		t.Errorf("of %d packets %d were seen, %d accounted for", packets, tally.Seen, sum)
	}
	got := verdicts(t, tallies)
	var all uint64
	for _, n := range got {
		all += n
	}
	if got[0] != tally.Marked || got[2] != tally.Counted || all != packets {
		t.Errorf("%d marked and %d counted of %d, the other end has %v", tally.Marked, tally.Counted, packets, got)
	}
}

// compare checks a mark against the codec where the codec takes the packet: it is
// stricter about checksums and about padding.
func compare(t *testing.T, packet, marked []byte, encoding wire.Encoding) bool {
	t.Helper()
	if _, _, was, err := codec.Extract(marked, wire.Port); err == nil {
		encoding = was
	} else if packet[0]>>4 == 6 {
		encoding = wire.Native
	}
	mark := codec.Mark{Modules: wire.Loss, Single: true}
	if codec.HasBlocks(encoding) {
		mark = codec.Mark{}
	}
	_, err := codec.Insert(packet, encoding, mark, wire.Port)
	if errors.Is(err, codec.ErrChecksum) || errors.Is(err, codec.ErrLength) {
		return false
	}
	if err != nil {
		t.Fatalf("%x became %x: %v", packet, marked, err)
	}
	checkMarked(t, marked, packet, encoding)
	return true
}
