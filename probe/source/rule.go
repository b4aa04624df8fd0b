package source

import (
	"encoding/binary"
	"net/netip"

	"pillion.dev/probe/flow"
	"pillion.dev/wire/fivetuple"
)

// rawRule is struct rule of rule.h.
func rawRule(r fivetuple.Filter) sourceRule {
	var raw sourceRule
	if is4, bound := r.Family(); bound {
		raw.Family = 6
		if is4 {
			raw.Family = 4
		}
	}
	raw.Src, raw.SrcMask = rawPrefix(r.Src)
	raw.Dst, raw.DstMask = rawPrefix(r.Dst)
	if r.HasProtocol {
		raw.Protocol = r.Protocol
		raw.Fields |= uint8(flow.Protocol)
	}
	if r.Sport != 0 {
		raw.Sport = networkOrder(r.Sport)
		raw.Fields |= uint8(flow.Sport)
	}
	if r.Dport != 0 {
		raw.Dport = networkOrder(r.Dport)
		raw.Fields |= uint8(flow.Dport)
	}
	return raw
}

func networkOrder(port uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], port)
	return binary.NativeEndian.Uint16(b[:])
}

func rawPrefix(prefix netip.Prefix) (address, mask [4]uint32) {
	if !prefix.IsValid() {
		return
	}
	var bytes, ones [16]byte
	copy(bytes[:], prefix.Addr().AsSlice())
	for i := range prefix.Bits() {
		ones[i/8] |= 0x80 >> (i % 8)
	}
	for i := range address {
		address[i] = binary.NativeEndian.Uint32(bytes[4*i:])
		mask[i] = binary.NativeEndian.Uint32(ones[4*i:])
	}
	return
}
