package source

import (
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"pillion.dev/probe/hook"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

func TestStampShift(t *testing.T) {
	for tick, want := range map[time.Duration]uint32{
		time.Second / 100: 3, time.Second / 250: 4, time.Second / 300: 4, time.Second / 1000: 6,
	} {
		if got := stampShift(tick); got != want {
			t.Errorf("tick %v: %d, want %d", tick, got, want)
		}
	}
}

// oneSecond makes seconds last until endSecond.
func oneSecond(spec *ebpf.CollectionSpec) error {
	return hook.SetConstants(spec, map[string]any{sourceVarStampShift: uint32(31)})
}

// stamping changes what the only flow remembers of its stamps, and returns what it was.
func (s *Source) stamping(t *testing.T, change func(*sourceNumbering)) sourceNumbering {
	t.Helper()
	var index uint32
	var slot sourceSlot
	entries := s.objects.Slots.Iterate()
	for entries.Next(&index, &slot) {
		if slot.Key.Last == 0 {
			continue
		}
		was := slot.Numbers
		change(&slot.Numbers)
		if err := s.objects.Slots.Put(index, slot); err != nil {
			t.Fatal(err)
		}
		return was
	}
	t.Fatal("there is no flow")
	return sourceNumbering{}
}

func endSecond(s *sourceNumbering) { s.Stamping.Second -= 1000 }

// stamps sends n packets and reports which of them carry a time. All are numbered.
func (s *Source) stamps(t *testing.T, packet []byte, n int) []bool {
	t.Helper()
	var stamped []bool
	var next uint32
	for i := range n {
		m := s.mark(t, packet)
		if m.Modules&wire.Loss == 0 || i > 0 && m.Sequence != next {
			t.Fatalf("packet %d: %+v, want number %d", i, m, next)
		}
		next = (m.Sequence + 1) & wire.SequenceMask
		stamped = append(stamped, m.Modules&wire.Delay != 0)
	}
	return stamped
}

func count(stamped []bool) (n int) {
	for _, is := range stamped {
		if is {
			n++
		}
	}
	return n
}

// way is an encoding, a packet to which it applies, and the bytes that align the mark.
type way struct {
	encoding wire.Encoding
	packet   []byte
	padding  int
}

// ways has every encoding.
func ways(t *testing.T) []way {
	t.Helper()
	plain6 := ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, []byte("x")))
	segment, err := codec.ReserveTCPOption(sealTCP(ipv4("192.0.2.1", "198.51.100.2", 6, tcp(1, 2, 0x10, nil, []byte("x")))))
	if err != nil {
		t.Fatal(err)
	}
	return []way{
		{wire.Native, plain6, 0}, {wire.Shim, plain4, 0}, {wire.IPIP, plain4, 0}, {wire.UDP, plain4, 0},
		{wire.UDPOption, plain4, 1}, {wire.UDPOption, plain6, 1}, {wire.TCPOption, segment, 0},
	}
}

// TestSparseStamps: in every encoding all packets are numbered. The first of a flow are
// stamped, then one in N on average, never more than 2N-1 apart. A mark without a time is
// as short as one of the module loss.
func TestSparseStamps(t *testing.T) {
	const n, every = 2000, 10
	for _, row := range ways(t) {
		t.Run(row.encoding.String(), func(t *testing.T) {
			settings := all(row.encoding, wire.Delay|wire.Loss)
			settings.StampEvery = every
			s := open(t, settings, oneSecond)
			stamped := s.stamps(t, row.packet, n)
			if count(stamped[:every]) != every {
				t.Errorf("the first packets: %v", stamped[:every])
			}
			gap, longest := 0, 0
			for _, is := range stamped {
				gap++
				longest = max(longest, gap)
				if is {
					gap = 0
				}
			}
			if longest > 2*every-1 || longest < 2 {
				t.Errorf("a gap of %d packets", longest)
			}
			// Ten standard deviations: gaps are uniform from 1 to 19.
			if got := count(stamped[every:]); got < 120 || got > 280 {
				t.Errorf("%d of %d stamped", got, n-every)
			}
			with := count(stamped)
			want := with*(row.encoding.Overhead(wire.Delay|wire.Loss)+row.padding) + (n-with)*(row.encoding.Overhead(wire.Loss)+row.padding)
			if got := s.mustTally(t).BytesAdded; got != uint64(want) {
				t.Errorf("%d bytes added, want %d", got, want)
			}
		})
	}
}

// TestStampsOfOneModule: nothing is left out where only one module is measured, or where
// every packet is to be stamped.
func TestStampsOfOneModule(t *testing.T) {
	for _, row := range []struct {
		modules wire.Module
		every   uint32
	}{{wire.Delay, 10}, {wire.Loss, 10}, {wire.Delay | wire.Loss, 1}} {
		for _, encoding := range []wire.Encoding{wire.UDP, wire.UDPOption} {
			settings := all(encoding, row.modules)
			settings.StampEvery = row.every
			s := open(t, settings)
			for range 100 {
				if m := s.mark(t, plain4); m.Modules != row.modules {
					t.Fatalf("%v, 1 in %d, %v: %v", row.modules, row.every, encoding, m.Modules)
				}
			}
		}
	}
}

// TestStampsFollowTheRate: every packet of a slow flow is stamped, and of a fast one some,
// until it has been slow for a while.
func TestStampsFollowTheRate(t *testing.T) {
	const every, fast, hold = 4, 32, 16
	settings := all(wire.UDP, wire.Delay|wire.Loss)
	settings.StampEvery = every
	s := open(t, settings, oneSecond)
	if got := s.stamps(t, plain4, every); count(got) != every {
		t.Errorf("new flow: %v", got)
	}
	if now := s.stamping(t, endSecond); now.Stamping.Left == 0 {
		t.Errorf("a flow that may become fast: %+v", now)
	}
	if got := s.stamps(t, plain4, fast); count(got) != fast {
		t.Errorf("slow flow: %v", got)
	}
	for second := range 3 {
		if now := s.stamping(t, endSecond); now.Stamping.Left == 0 || now.Stamping.Left > 2*every-1 {
			t.Errorf("fast flow: %+v", now)
		}
		if got := s.stamps(t, plain4, fast); count(got) < fast/(2*every) {
			t.Errorf("fast second %d: %v", second, got)
		}
	}
	for second := range hold {
		if now := s.stamping(t, endSecond); now.Stamping.Left == 0 {
			t.Fatalf("slow after %d seconds: %+v", second, now)
		}
		s.stamps(t, plain4, fast-1)
	}
	s.stamping(t, endSecond)
	if got := s.stamps(t, plain4, fast); count(got) != fast {
		t.Errorf("slow again: %v", got)
	}
}

// TestStampInEverySecond: a flow that became slow has at least one time in each second.
func TestStampInEverySecond(t *testing.T) {
	settings := all(wire.UDPOption, wire.Delay|wire.Loss)
	settings.StampEvery = 50
	s := open(t, settings, oneSecond)
	s.stamps(t, plain4, 50)
	far := func(now *sourceNumbering) {
		endSecond(now)
		now.Stamping.Left, now.Stamping.Hold = 60, 9
	}
	s.stamping(t, far)
	s.stamps(t, plain4, 2)
	for range 3 {
		s.stamping(t, far)
		if got := s.stamps(t, plain4, 3); !slices.Equal(got, []bool{true, false, false}) {
			t.Error(got)
		}
	}
}
