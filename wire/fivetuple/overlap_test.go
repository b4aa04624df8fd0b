package fivetuple

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

func TestOverlaps(t *testing.T) {
	rows := []struct{ name, a, b, both string }{
		{"equal", "proto=tcp dport=80", "proto=tcp dport=80", "proto=tcp dport=80"},
		{"nested prefixes", "src=10.0.0.0/8", "src=10.1.0.0/16", "src=10.1.0.0/16"},
		{"prefixes apart", "src=10.0.0.0/16", "src=10.1.0.0/16", ""},
		{"a side each", "src=10.0.0.1", "dst=10.0.0.2", "src=10.0.0.1 dst=10.0.0.2"},
		{"a side each, of two families", "src=10.0.0.1", "dst=2001:db8::2", ""},
		{"families", "dst=0.0.0.0/0", "dst=::/0", ""},
		{"each narrower in one field", "dst=10.0.0.0/8 dport=80", "dst=10.0.0.2 proto=udp", "dst=10.0.0.2 proto=udp dport=80"},
		{"protocols apart", "proto=tcp", "proto=udp", ""},
		{"protocol zero", "proto=0", "proto=tcp", ""},
		{"ports apart", "sport=1", "sport=2", ""},
		{"ports of two sides", "sport=1", "dport=2", "sport=1 dport=2"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			a, b := parseAll(t, []string{row.a})[0], parseAll(t, []string{row.b})[0]
			for _, order := range [][2]Filter{{a, b}, {b, a}} {
				both, ok := order[0].Intersect(order[1])
				if ok != (row.both != "") || both.String() != row.both || order[0].Overlaps(order[1]) != ok {
					t.Errorf("got %q, %t; want %q", both, ok, row.both)
				}
			}
		})
	}
	if both, ok := (Filter{}).Intersect(Filter{}); !ok || both != (Filter{}) {
		t.Errorf("all packets and all packets are %q, %t", both, ok)
	}
}

// Every packet of a small world says whether two filters overlap, whether one covers the other,
// and what they have in common.
func TestOverlapsAgreesWithPackets(t *testing.T) {
	world, random := packets(), rand.New(rand.NewPCG(1, 2))
	overlapping := 0
	for range 5000 {
		a, b := drawFilter(random), drawFilter(random)
		overlaps, covers := false, true
		both, _ := a.Intersect(b)
		for _, k := range world {
			in := a.Matches(k) && b.Matches(k)
			overlaps = overlaps || in
			covers = covers && (!b.Matches(k) || a.Matches(k))
			if a.Overlaps(b) && both.Matches(k) != in {
				t.Fatalf("%q and %q are %q, which is wrong for %+v", a, b, both, k)
			}
		}
		if a.Overlaps(b) != overlaps {
			t.Fatalf("%q and %q overlap: %t, want %t", a, b, !overlaps, overlaps)
		}
		if a.Covers(b) && !covers {
			t.Fatalf("%q does not cover %q", a, b)
		}
		if overlaps {
			overlapping++
		}
	}
	if overlapping < 500 || overlapping > 4500 {
		t.Errorf("%d of 5000 pairs overlap: the test is too weak", overlapping)
	}
}

// packets are those of four addresses in each family, with two protocols and ports.
func packets() (world []Key) {
	for _, base := range []string{"10.0.0.0", "2001:db8::"} {
		first := netip.MustParseAddr(base)
		addresses := []netip.Addr{first, first.Next(), first.Next().Next(), first.Next().Next().Next()}
		for _, src := range addresses {
			for _, dst := range addresses {
				for bits := range 8 {
					world = append(world, Key{Src: src, Dst: dst, Protocol: []uint8{0, 6}[bits&1], Sport: uint16(1 + bits>>1&1), Dport: uint16(1 + bits>>2)})
				}
			}
		}
	}
	return world
}

// drawFilter draws each field at random, and leaves it out in one of two cases.
func drawFilter(random *rand.Rand) Filter {
	var f Filter
	base := netip.MustParseAddr([]string{"10.0.0.0", "2001:db8::"}[random.IntN(2)])
	prefix := func() (p netip.Prefix) {
		if random.IntN(2) == 0 {
			return p
		}
		address := base
		for range random.IntN(4) {
			address = address.Next()
		}
		p, _ = address.Prefix(base.BitLen() - random.IntN(4))
		return p
	}
	f.Src, f.Dst = prefix(), prefix()
	if random.IntN(2) == 0 {
		f.Protocol, f.HasProtocol = []uint8{0, 6}[random.IntN(2)], true
	}
	f.Sport, f.Dport = uint16(random.IntN(3)), uint16(random.IntN(3))
	return f
}
