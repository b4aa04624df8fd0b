package source

import (
	"bytes"
	"testing"

	"github.com/cilium/ebpf"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// segments returns TCP segments with room for a mark, and others that differ from them in
// one property each.
func segments(t *testing.T) [][]byte {
	t.Helper()
	_, rooms := reserved(t)
	packets := rooms
	change := func(packet []byte, change func(ip, tcp []byte)) {
		b := bytes.Clone(packet)
		ip := 40
		if b[0]>>4 == 4 {
			ip = 4 * int(b[0]&15)
		}
		change(b[:ip], b[ip:])
		packets = append(packets, b)
	}
	for _, room := range rooms {
		for _, flags := range []byte{0x02, 0x11, 0x04} { // SYN, FIN, RST
			change(room, func(_, tcp []byte) { tcp[13] = flags })
		}
		change(room, func(_, tcp []byte) { tcp[12] -= 1 << 4 })
		change(room, func(_, tcp []byte) { tcp[12] += 1 << 4 })
		change(room, func(_, tcp []byte) { tcp[4*(tcp[12]>>4)-12] = 253 }) // a mark
		change(room, func(_, tcp []byte) { tcp[4*(tcp[12]>>4)-9]++ })      // another experiment
		change(room, func(_, tcp []byte) { tcp[20]++ })                    // another first option
		change(room, func(ip, _ []byte) {
			if ip[0]>>4 == 4 {
				ip[6] |= 0x20 // more fragments
			}
		})
		packets = append(packets, append(bytes.Clone(room), 0, 0), room[:len(room)-1], room[:40])
	}
	return packets
}

// TestFastPathDecidesAsTheGeneralOne compares segments of flows with a slot and without.
func TestFastPathDecidesAsTheGeneralOne(t *testing.T) {
	both := wire.Delay | wire.Loss
	noSlots := func(spec *ebpf.CollectionSpec) error { return spec.Variables[sourceVarSlotMask].Set(uint32(0)) }
	for name, settings := range map[string]Settings{
		"numbers":       {Policy: Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.TCPOption}}},
		"stamps":        {Policy: Policy{Modules: both, Encodings: wire.EncodingList{wire.TCPOption}, Marking: wire.Marking{StampEvery: 1}}},
		"delay":         {Policy: Policy{Modules: wire.Delay, Encodings: wire.EncodingList{wire.TCPOption}, Marking: wire.Marking{StampEvery: 1}}},
		"sparse marks":  sparsely(4, wire.TCPOption),
		"not preferred": {Policy: Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.Native, wire.TCPOption}}},
	} {
		t.Run(name, func(t *testing.T) {
			fast, general := open(t, settings), open(t, settings, noSlots)
			packets := segments(t)
			other := bytes.Clone(packets[0])
			other[19]++ // of its destination
			for _, s := range []*Source{fast, general} {
				s.ready(t)
				run(t, s.objects.SourceTc, other) // takes the only slot
			}
			for _, packet := range packets {
				for _, fields := range []map[int]uint32{
					nil, nil, {contextIngressIfindex: 1}, {contextGSOSegs: 3, contextGSOSize: 500}, {contextGSOSegs: 1},
					{contextMark: 7}, {contextMark: ProbeMark}, {contextMark: ProbeMark + 1 + uint32(wire.UDPOption)},
				} {
					marked, want := fast.runAs(t, packet, fields), general.runAs(t, packet, fields)
					if len(settings.Encodings) == 1 {
						compareSegments(t, marked, want)
					} else if len(marked) != len(want) {
						t.Errorf("%x\nwithout slots %x", marked, want)
					}
				}
			}
			f, g := fast.mustTally(t), general.mustTally(t)
			if f.Marked != g.Marked || f.Seen != g.Seen || f.BytesAdded != g.BytesAdded || f.Counted != g.Counted {
				t.Errorf("%+v, without slots %+v", f, g)
			}
			for outcome, n := range f.Skipped {
				if g.Skipped[outcome] != n {
					t.Errorf("%s: %d, without slots %d", outcome, n, g.Skipped[outcome])
				}
			}
		})
	}
}

// compareSegments reports what differs beside numbers and times.
func compareSegments(t *testing.T, fast, general []byte) {
	t.Helper()
	original, m, encoding, err := codec.Extract(fast, wire.Port)
	want, wanted, other, otherErr := codec.Extract(general, wire.Port)
	if err != nil && otherErr != nil { // not marked, or something else is wrong
		if !bytes.Equal(withoutMark(fast), withoutMark(general)) {
			t.Errorf("%x (%v)\nwithout slots %x (%v)", fast, err, general, otherErr)
		}
		return
	}
	if err != nil || otherErr != nil || encoding != other || !bytes.Equal(original, want) ||
		m.Modules != wanted.Modules || m.Single != wanted.Single {
		t.Errorf("%x (%v)\nwithout slots %x (%v)", fast, err, general, otherErr)
	}
}

// withoutMark sets the checksum of a TCP header, and number and time in its last option, to
// zero.
func withoutMark(packet []byte) []byte {
	b := bytes.Clone(packet)
	tcp := 40
	if b[0]>>4 == 4 {
		tcp = 4 * int(b[0]&15)
	}
	if len(b) < tcp+20 {
		return b
	}
	clear(b[tcp+16 : tcp+18])
	if end := tcp + 4*int(b[tcp+12]>>4); end <= len(b) && end >= tcp+32 {
		clear(b[end-8 : end])
	}
	return b
}

// TestGeneralPathFallsThrough: a packet of the general path leaves unmarked, and is counted,
// once no process holds the table of stages.
func TestGeneralPathFallsThrough(t *testing.T) {
	s := open(t, all(wire.UDPOption, wire.Delay|wire.Loss))
	fast := ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 2, []byte("x")))
	general := ipv6("2001:db8::1", "2001:db8::2", 58, []byte{128, 0, 0, 0, 1, 2, 0, 1})
	for _, packet := range [][]byte{fast, general} {
		if got := s.outcome(t, packet); got != "marked" {
			t.Errorf("%x: %s", packet, got)
		}
	}
	if err := s.objects.Stages.Delete(uint32(0)); err != nil {
		t.Fatal(err)
	}
	if got := s.outcome(t, fast); got != "marked" {
		t.Errorf("fast path without stages: %s", got)
	}
	if got := s.outcome(t, general); got != "no_room" {
		t.Errorf("general path without stages: %s", got)
	}
	tally := s.mustTally(t)
	seen := tally.Marked + tally.Counted
	for _, n := range tally.Skipped {
		seen += n
	}
	if tally.Seen != 4 || seen != 4 || tally.Marked != 3 {
		t.Errorf("tally %+v", tally)
	}
}
