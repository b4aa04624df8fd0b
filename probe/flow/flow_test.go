package flow

import (
	"net/netip"
	"testing"
)

func TestRawKey(t *testing.T) {
	rows := []struct {
		name string
		raw  Raw
		want Key
	}{
		{"IPv4", Raw{Src: [16]byte{192, 0, 2, 1}, Dst: [16]byte{198, 51, 100, 2}, Sport: [2]byte{0x12, 0x34},
			Dport: [2]byte{0, 80}, Protocol: 6, Family: 4},
			Key{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("198.51.100.2"), Protocol: 6, Sport: 0x1234, Dport: 80}},
		{"IPv6", Raw{Src: [16]byte{0x20, 1, 0xd, 0xb8, 15: 1}, Dst: [16]byte{0x20, 1, 0xd, 0xb8, 15: 2}, Protocol: 58, Family: 6},
			Key{Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"), Protocol: 58}},
		{"wildcards", Raw{Dst: [16]byte{198, 51, 100, 2}, Family: 4}, Key{Dst: netip.MustParseAddr("198.51.100.2")}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := row.raw.Key(); got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
			bytes := append(append(append([]byte(nil), row.raw.Src[:]...), row.raw.Dst[:]...), row.raw.Sport[:]...)
			bytes = append(append(bytes, row.raw.Dport[:]...), row.raw.Protocol, row.raw.Family, 0, 0)
			if len(bytes) != RawSize {
				t.Fatalf("%d bytes, want %d", len(bytes), RawSize)
			}
			if got := ParseRaw(bytes); got != row.raw {
				t.Errorf("got %+v, want %+v", got, row.raw)
			}
		})
	}
}
