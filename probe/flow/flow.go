// Package flow says what a flow is: a five-tuple, or an aggregate in which some
// of the five fields are wildcards (seed 1, section III). Both probes speak of
// flows through it. It keeps no state.
package flow

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"pillion.dev/wire/fivetuple"
)

// Fields are the fields in which two flows differ, as bits.
type Fields uint32

// The five fields; the values are those of probe/bpf/flow.h.
const (
	Src Fields = 1 << iota
	Dst
	Protocol
	Sport
	Dport

	All = Src | Dst | Protocol | Sport | Dport
)

var fieldNames = []string{"src", "dst", "proto", "sport", "dport"}

// ParseFields reads names separated by commas, such as "src,dst,proto".
func ParseFields(text string) (Fields, error) {
	var fields Fields
	for name := range strings.SplitSeq(text, ",") {
		found := false
		for i, n := range fieldNames {
			if strings.TrimSpace(name) == n {
				fields |= 1 << i
				found = true
			}
		}
		if !found {
			return 0, fmt.Errorf("read flow fields: no field %q; there are %s", name, strings.Join(fieldNames, ", "))
		}
	}
	return fields, nil
}

// String gives the names as ParseFields reads them.
func (f Fields) String() string {
	var names []string
	for i, n := range fieldNames {
		if f&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ",")
}

// Key is one flow. A field that is a wildcard is zero or invalid.
type Key = fivetuple.Key

// Raw is struct flow_key of probe/bpf/flow.h: addresses and ports in network
// byte order.
type Raw struct {
	Src, Dst     [16]byte
	Sport, Dport [2]byte
	Protocol     uint8
	Family       uint8
	Zero         uint16
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

func (r Raw) address(b [16]byte) netip.Addr {
	if b == [16]byte{} {
		return netip.Addr{}
	}
	if r.Family == 4 {
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	return netip.AddrFrom16(b)
}

// ParseRaw reads a key out of a record.
func ParseRaw(b []byte) Raw {
	var r Raw
	copy(r.Src[:], b)
	copy(r.Dst[:], b[16:])
	copy(r.Sport[:], b[32:])
	copy(r.Dport[:], b[34:])
	r.Protocol, r.Family = b[36], b[37]
	return r
}
