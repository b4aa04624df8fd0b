package source

import (
	"bytes"
	"errors"
	"testing"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// sparsely is what the tests of sparse marks mark.
func sparsely(every uint32, list ...wire.Encoding) Settings {
	return Settings{Policy: Policy{Modules: wire.Delay | wire.Loss, Encodings: list, Marking: wire.Marking{StampEvery: every, SparseMarks: true}}}
}

// sparseMark sends a packet and returns its mark; without one the packet must be unchanged.
func (s *Source) sparseMark(t *testing.T, packet []byte) (m codec.Mark, marked bool) {
	t.Helper()
	out := run(t, s.objects.SourceTc, packet)
	if bytes.Equal(out, packet) {
		return codec.Mark{}, false
	}
	original, m, _, err := codec.Extract(out, wire.Port)
	if err != nil {
		t.Fatalf("%x: %v", out, err)
	}
	if !m.Sparse || m.Modules != wire.Delay|wire.Loss {
		t.Fatalf("%x has the mark %+v", out, m)
	}
	if len(original) != len(packet) {
		t.Fatalf("%x became %x", packet, original)
	}
	return m, true
}

// TestSparseMarks: in every encoding the first packets of a flow are marked, then one in N
// on average, never more than 2N-1 apart, and their numbers count all packets.
func TestSparseMarks(t *testing.T) {
	const n, every = 2000, 10
	for _, row := range ways(t) {
		if row.encoding == wire.TCPOption { // decided when the segment is built: see TestSparseSegments
			continue
		}
		t.Run(row.encoding.String(), func(t *testing.T) {
			s := open(t, sparsely(every, row.encoding), oneSecond)
			var first uint32
			marks, gap := 0, 0
			for i := range n {
				gap++
				m, marked := s.sparseMark(t, row.packet)
				if !marked {
					if gap >= 2*every || i < every {
						t.Fatalf("packet %d is not marked, nor the %d before", i, gap-1)
					}
					continue
				}
				if i == 0 {
					first = m.Sequence
				}
				if marks, gap = marks+1, 0; m.Sequence != first+uint32(i) || !m.Single || first%codec.FlowStride != 0 {
					t.Fatalf("packet %d: %+v, the first had number %d", i, m, first)
				}
			}
			// Ten standard deviations: gaps are uniform from 1 to 19.
			if marks < every+120 || marks > every+280 {
				t.Errorf("%d of %d marked", marks, n)
			}
			tally := s.mustTally(t)
			added := uint64(marks * (row.encoding.Overhead(wire.Delay|wire.Loss) + row.padding))
			if tally.Marked != uint64(marks) || tally.Counted != uint64(n-marks) || tally.Seen != n || tally.BytesAdded != added {
				t.Errorf("%d marks: %+v", marks, tally)
			}
		})
	}
}

// TestSparseSegments: segments with room for a mark get one, and their numbers count the
// others.
func TestSparseSegments(t *testing.T) {
	plain := sealTCP(ipv4("192.0.2.1", "198.51.100.2", 6, tcp(1, 2, 0x10, nil, []byte("x"))))
	room, err := codec.ReserveTCPOption(plain)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, sparsely(10, wire.TCPOption), oneSecond)
	s.ready(t)
	if got := s.outcome(t, plain); got != "tcp_options" {
		t.Errorf("before the first mark: %s", got)
	}
	first := s.mark(t, room)
	for i := range uint32(100) {
		if got := s.outcome(t, plain); got != "counted" {
			t.Fatalf("without room: %s", got)
		}
		if m := s.mark(t, room); !m.Sparse || m.Sequence != first.Sequence+2*i+2 {
			t.Fatalf("segment %d: %+v, the first was %+v", i, m, first)
		}
	}
}

// TestSparseMarksWithoutSlots: of flows with one hash only the first has a slot.
func TestSparseMarksWithoutSlots(t *testing.T) {
	settings := sparsely(4, wire.UDPOption)
	settings.Flows = 2 // one slot
	s := open(t, settings, oneSecond)
	first := map[uint16]uint32{}
	for i := range 500 {
		for port := range uint16(2) {
			m, marked := s.sparseMark(t, datagram("192.0.2.1", port))
			if i == 0 {
				first[port] = m.Sequence
			}
			if marked && m.Sequence != first[port]+uint32(i) {
				t.Fatalf("packet %d of port %d has number %d, the first had %d", i, port, m.Sequence, first[port])
			}
		}
	}
	if tally := s.mustTally(t); tally.Marked+tally.Counted != 1000 || tally.Counted < 400 {
		t.Errorf("got %+v", tally)
	}
}

// TestSparseNumbersCountWhatIsNotMarked: a packet that cannot carry a mark has a number, if
// its destination will count it; another has none.
func TestSparseNumbersCountWhatIsNotMarked(t *testing.T) {
	large := ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 2, make([]byte, 1500-28)))
	fragment := bytes.Clone(plain4)
	fragment[6] = 0x20
	seal4(fragment)
	surplus := seal4(append(bytes.Clone(plain4), 1, 2, 3))
	for _, encoding := range []wire.Encoding{wire.UDPOption, wire.UDP, wire.Shim} {
		s := open(t, sparsely(1, encoding))
		if got := s.outcome(t, large); got != "mtu" {
			t.Errorf("%v: too large, before the first mark: %s", encoding, got)
		}
		first, _ := s.sparseMark(t, plain4)
		if first.Sequence%codec.FlowStride != 0 {
			t.Errorf("%v: the first number is %d", encoding, first.Sequence)
		}
		for _, row := range []struct {
			packet []byte
			want   string
		}{{large, "counted"}, {fragment, "fragment"}, {large, "counted"}, {surplus, "counted"}} {
			if got := s.outcome(t, row.packet); got != row.want {
				t.Errorf("%v: %s, want %s", encoding, got, row.want)
			}
		}
		if next, marked := s.sparseMark(t, plain4); !marked || next.Sequence != first.Sequence+4 {
			t.Errorf("%v: number %d, the first was %d", encoding, next.Sequence, first.Sequence)
		}
	}
}

// TestSparseMarkIsNotSkipped: a packet that should carry a mark and cannot leaves it to the next.
func TestSparseMarkIsNotSkipped(t *testing.T) {
	const every = 50
	large := ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 2, make([]byte, 1500-28)))
	s := open(t, sparsely(every, wire.UDPOption), oneSecond)
	for range 100 {
		s.sparseMark(t, plain4)
	}
	for range 2 * every {
		if got := s.outcome(t, large); got != "counted" {
			t.Fatal(got)
		}
	}
	if _, marked := s.sparseMark(t, plain4); !marked {
		t.Error("the packet after those that are too large has no mark")
	}
}

// TestSparseOfOthers: what no destination can count carries a mark in each packet.
func TestSparseOfOthers(t *testing.T) {
	hop := ipv6("2001:db8::1", "2001:db8::2", 0, append([]byte{17, 0, 1, 4, 0, 0, 0, 0}, ported(1, 2, nil)...))
	echo := ipv6("2001:db8::1", "2001:db8::2", 58, []byte{128, 0, 0, 0, 0, 1, 0, 2})
	s := open(t, sparsely(4, wire.Native), oneSecond)
	for i := range 100 {
		for _, packet := range [][]byte{hop, echo} {
			if m, marked := s.sparseMark(t, packet); !marked {
				t.Fatalf("packet %d of %x: %+v", i, packet, m)
			}
		}
	}
}

func TestSparseSettings(t *testing.T) {
	good := sparsely(16, wire.UDPOption)
	if _, err := specification(hookDevice, good, 0); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Settings){
		"one module": func(s *Settings) { s.Modules = wire.Loss },
		"flows":      func(s *Settings) { s.Flow = flow.Src | flow.Dst },
		"sampling":   func(s *Settings) { s.Sampling.Every = 2 },
		"random":     func(s *Settings) { s.Sampling.Random = 2 },
		"least gap":  func(s *Settings) { s.Sampling.MinGap = 1 },
	} {
		settings := good
		change(&settings)
		if _, err := specification(hookDevice, settings, 0); !errors.Is(err, ErrSparse) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := open(t, good)
	if err := s.Sample(wire.Sampling{Every: 2}); !errors.Is(err, ErrSparse) {
		t.Errorf("sampling while it runs: %v", err)
	}
}
