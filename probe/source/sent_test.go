package source

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
)

func (s *Source) mustSent(t *testing.T) map[uint16]Sent {
	t.Helper()
	sent, err := s.Sent()
	if err != nil {
		t.Fatal(err)
	}
	by := map[uint16]Sent{}
	for _, one := range sent {
		by[one.Key.Sport] = one
	}
	if len(by) != len(sent) {
		t.Fatalf("%d flows, some twice: %+v", len(sent), sent)
	}
	return by
}

// TestSentNumbers: what was sent between two readings, of flows in slots and of others.
func TestSentNumbers(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*ebpf.CollectionSpec) error
	}{
		{"slots", func(*ebpf.CollectionSpec) error { return nil }},
		{"one slot", func(spec *ebpf.CollectionSpec) error { return spec.Variables[sourceVarSlotMask].Set(uint32(0)) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := open(t, all(wire.UDP, wire.Delay|wire.Loss), row.change)
			from := func(port uint16) []byte {
				return ipv4("192.0.2.1", "198.51.100.2", 17, ported(port, 2, []byte("x")))
			}
			if got := s.mustSent(t); len(got) != 0 {
				t.Fatalf("before any packet: %+v", got)
			}
			first := map[uint16]uint32{}
			for port := uint16(1); port <= 20; port++ {
				first[port] = s.mark(t, from(port)).Sequence
				for range port - 1 {
					s.mark(t, from(port))
				}
			}
			got := s.mustSent(t)
			for port, number := range first {
				want := Sent{
					Key:   flow.Key{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("198.51.100.2"), Protocol: 17, Sport: port, Dport: 2},
					Start: number, First: number, Next: number + uint32(port), Packets: uint64(port),
				}
				if got[port] != want || !got[port].Began() {
					t.Errorf("port %d: got %+v, want %+v", port, got[port], want)
				}
			}
			if again := s.mustSent(t); len(again) != 0 {
				t.Errorf("without packets: %+v", again)
			}
			s.mark(t, from(7))
			s.mark(t, from(7))
			one := s.mustSent(t)
			if want := (Sent{got[7].Key, first[7], first[7] + 7, first[7] + 9, 2}); len(one) != 1 || one[7] != want || one[7].Began() {
				t.Errorf("got %+v, want %+v", one, want)
			}
		})
	}
}

// TestSentAnew: a flow that was removed begins with other numbers; those of its last
// packets were reported before.
func TestSentAnew(t *testing.T) {
	settings := all(wire.UDP, wire.Loss)
	settings.Idle = 1
	s := open(t, settings)
	before := s.mark(t, plain4).Sequence
	if got := s.mustSent(t)[1]; got.Start != before || got.Packets != 1 {
		t.Fatalf("got %+v, want one packet from %d", got, before)
	}
	for { // removed once it is older than a tick
		if err := s.Renew(Forever); err != nil {
			t.Fatal(err)
		}
		if err := s.Sweep(); err != nil {
			t.Fatal(err)
		}
		if s.mustTally(t).Flows == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	after := s.mark(t, plain4).Sequence
	s.mark(t, plain4)
	if got := s.mustSent(t)[1]; got.Start != after || got.First != after || got.Packets != 2 {
		t.Errorf("got %+v, want two packets from %d", got, after)
	}
}

// TestSentWraps: numbers are modulo 2^31.
func TestSentWraps(t *testing.T) {
	before := sentFlow{start: 0x7fff0000, next: 0x7ffffffe, reading: 1}
	now := sentFlow{start: 0x7fff0000, next: 5, reading: 2}
	if got, ok := now.since(before); !ok || got.Packets != 7 || got.First != 0x7ffffffe || got.Next != 5 {
		t.Errorf("got %+v, %v", got, ok)
	}
	if got, ok := before.since(before); ok {
		t.Errorf("got %+v without packets", got)
	}
}

// TestSentSparse: packets that only count have numbers, too.
func TestSentSparse(t *testing.T) {
	s := open(t, sparsely(10, wire.UDPOption), oneSecond)
	packet := ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 2, []byte("x")))
	for range 1000 {
		s.sparseMark(t, packet)
	}
	if got := s.mustSent(t)[1]; got.Packets != 1000 {
		t.Errorf("got %+v, want 1000 packets", got)
	}
	if tally := s.mustTally(t); tally.Counted == 0 {
		t.Errorf("every packet carries a mark: %+v", tally)
	}
}
