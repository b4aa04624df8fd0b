// Package flow says what a flow is: a five-tuple, or an aggregate in which some
// of the five fields are wildcards (seed 1, section III). Both probes speak of
// flows through it. It keeps no state.
package flow

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
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

// Key is one flow. A field that is a wildcard is zero or invalid. IPv4 addresses
// are plain, not mapped into IPv6.
type Key struct {
	Src, Dst     netip.Addr
	Protocol     uint8
	Sport, Dport uint16
}

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

var protocolNames = map[uint8]string{
	1: "icmp", 6: "tcp", 17: "udp", 33: "dccp", 58: "icmpv6", 132: "sctp", 136: "udplite",
}

// ProtocolName is the name of an IP protocol number, or the number.
func ProtocolName(protocol uint8) string {
	if name, ok := protocolNames[protocol]; ok {
		return name
	}
	return fmt.Sprint(protocol)
}

// ParseProtocol reads a name that ProtocolName gives, or a number.
func ParseProtocol(text string) (uint8, error) {
	for number, name := range protocolNames {
		if name == text {
			return number, nil
		}
	}
	var number uint8
	if _, err := fmt.Sscanf(text, "%d", &number); err != nil || fmt.Sprint(number) != text {
		return 0, fmt.Errorf("read protocol %q: neither a name such as tcp nor a number up to 255", text)
	}
	return number, nil
}
