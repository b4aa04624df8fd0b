// Package flow says what a flow is: a five-tuple, or an aggregate in which some
// of the five fields are wildcards (seed 1, section III). Both probes speak of
// flows through it. It keeps no state.
package flow

import (
	"encoding/binary"
	"net/netip"

	"pillion.dev/wire/fivetuple"
)

// Fields are the fields in which two flows differ, as bits.
type Fields = fivetuple.Fields

// The five fields; probe/bpf/flow.h has the same values.
const (
	Src      = fivetuple.Src
	Dst      = fivetuple.Dst
	Protocol = fivetuple.Protocol
	Sport    = fivetuple.Sport
	Dport    = fivetuple.Dport

	All = fivetuple.All
)

// Key is one flow. A field that is a wildcard is zero or invalid.
type Key = fivetuple.Key

// Raw is struct flow_key of probe/bpf/flow.h: addresses and ports in network
// byte order.
type Raw struct {
	Src, Dst     [16]byte
	Sport, Dport [2]byte
	Protocol     uint8
	// Family is 4 or 6; at a destination that tells flows apart by different fields, the fields of
	// an aggregate are above it: FLOW_FAMILY_BITS of account.h.
	Family uint8
	// Zero is the ingress at a destination (Key.Ingress), and at a source what tells aggregates
	// of its policies apart.
	Zero uint16
}

// RawSize is the size of Raw in bytes.
const RawSize = 40

// Key is the flow that the probe wrote. A wildcard address becomes invalid.
func (r Raw) Key() Key {
	return Key{
		Src: r.address(r.Src), Dst: r.address(r.Dst), Protocol: r.Protocol,
		Sport: binary.BigEndian.Uint16(r.Sport[:]), Dport: binary.BigEndian.Uint16(r.Dport[:]),
	}
}

// Marked is Key at a destination, where flows are also told apart by the agent that marked them.
func (r Raw) Marked() Key {
	k := r.Key()
	k.Ingress, k.Fields = uint32(r.Zero), Fields(r.Family>>familyBits)
	return k
}

const familyBits = 3

func (r Raw) address(b [16]byte) netip.Addr {
	if b == [16]byte{} {
		return netip.Addr{}
	}
	if r.Family&(1<<familyBits-1) == 4 {
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	return netip.AddrFrom16(b)
}

// RawOf returns the key that a probe has for the flow.
func RawOf(k Key) Raw {
	r := Raw{Protocol: k.Protocol, Family: 6 | uint8(k.Fields)<<familyBits, Zero: uint16(k.Ingress)}
	if k.Src.Is4() {
		r.Family -= 6 - 4
	}
	copy(r.Src[:], k.Src.AsSlice())
	copy(r.Dst[:], k.Dst.AsSlice())
	binary.BigEndian.PutUint16(r.Sport[:], k.Sport)
	binary.BigEndian.PutUint16(r.Dport[:], k.Dport)
	return r
}

// ParseRaw reads a key out of a record.
func ParseRaw(b []byte) Raw {
	var r Raw
	copy(r.Src[:], b)
	copy(r.Dst[:], b[16:])
	copy(r.Sport[:], b[32:])
	copy(r.Dport[:], b[34:])
	r.Protocol, r.Family = b[36], b[37]
	r.Zero = binary.NativeEndian.Uint16(b[38:])
	return r
}
