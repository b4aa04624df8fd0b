package flow

import (
	"encoding/binary"
	"net/netip"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// RulesMax is how many rules a program can have at once.
const RulesMax = wire.RulesMax

// Rule is struct rule of probe/bpf/rule.h.
type Rule struct {
	Src, SrcMask [4]uint32
	Dst, DstMask [4]uint32
	Sport, Dport uint16
	Protocol     uint8
	Family       uint8
	Fields       uint8
	Policy       uint8 // of a source: how to mark what fits; of a destination: fields
}

// NewRule returns the rule that fits what the filter matches.
func NewRule(f fivetuple.Filter) Rule {
	var raw Rule
	if is4, bound := f.Family(); bound {
		raw.Family = 6
		if is4 {
			raw.Family = 4
		}
	}
	raw.Src, raw.SrcMask = rawPrefix(f.Src)
	raw.Dst, raw.DstMask = rawPrefix(f.Dst)
	if f.HasProtocol {
		raw.Protocol = f.Protocol
		raw.Fields |= uint8(Protocol)
	}
	if f.Sport != 0 {
		raw.Sport = networkOrder(f.Sport)
		raw.Fields |= uint8(Sport)
	}
	if f.Dport != 0 {
		raw.Dport = networkOrder(f.Dport)
		raw.Fields |= uint8(Dport)
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
	address = RawAddress(prefix.Addr())
	var ones [16]byte
	for i := range prefix.Bits() {
		ones[i/8] |= 0x80 >> (i % 8)
	}
	return address, rawWords(ones)
}

// RawAddress returns the address as words in network byte order, IPv4 in the first.
func RawAddress(address netip.Addr) [4]uint32 {
	var bytes [16]byte
	copy(bytes[:], address.AsSlice())
	return rawWords(bytes)
}

func rawWords(bytes [16]byte) (words [4]uint32) {
	for i := range words {
		words[i] = binary.NativeEndian.Uint32(bytes[4*i:])
	}
	return words
}
