package flow

import "net/netip"

// HostPrefix is struct host_prefix of probe/bpf/prefix.h.
type HostPrefix struct {
	Prefix  uint32
	Family  uint8
	Address [16]byte
}

// NewHostPrefix returns the key of a trie for hosts of a prefix.
func NewHostPrefix(prefix netip.Prefix) HostPrefix {
	raw := HostPrefix{Prefix: uint32(8 + prefix.Bits()), Family: 6}
	if prefix.Addr().Is4() {
		raw.Family = 4
	}
	copy(raw.Address[:], prefix.Masked().Addr().AsSlice())
	return raw
}
