// Package fivetuple names a flow by its addresses, protocol and ports, and filters
// packets by them. It has the one reader and the one writer of filter text, which
// sessions, agents and probes share. It holds no state and matches nothing in the
// kernel: probe/source turns a Filter into what its program compares with.
package fivetuple

import (
	"fmt"
	"net/netip"
	"strconv"
)

// Key is one flow. A field that is a wildcard is zero or invalid. IPv4 addresses
// are plain, not mapped into IPv6.
type Key struct {
	Src, Dst     netip.Addr
	Protocol     uint8
	Sport, Dport uint16
	// Ingress is, where marks were read, the number of the agent that marked packets which it
	// forwarded; 0: their source did. Filters do not match it.
	Ingress uint32
	// Fields are, of an aggregate, those in which it differs from other flows, where a reader tells
	// flows apart by different ones; 0 elsewhere. Filters do not match it either.
	Fields Fields
}

var protocolNames = map[uint8]string{
	1: "icmp", 6: "tcp", 17: "udp", 33: "dccp", 58: "icmpv6", 132: "sctp", 136: "udplite",
}

// ProtocolName is the name of an IP protocol number, or the number.
func ProtocolName(protocol uint8) string {
	if name, ok := protocolNames[protocol]; ok {
		return name
	}
	return strconv.Itoa(int(protocol))
}

// ParseProtocol reads a name that ProtocolName returns, or a number.
func ParseProtocol(text string) (uint8, error) {
	for number, name := range protocolNames {
		if name == text {
			return number, nil
		}
	}
	number, err := strconv.ParseUint(text, 10, 8)
	if err != nil || strconv.FormatUint(number, 10) != text {
		return 0, fmt.Errorf("read protocol %q: neither a name such as tcp nor a number up to 255", text)
	}
	return uint8(number), nil
}

// ParsePrefix reads a prefix or a single address, IPv4 or IPv6.
func ParsePrefix(text string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil && !prefix.Addr().Is4In6() {
		return prefix.Masked(), nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" || addr.Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is neither a prefix nor an address", text)
	}
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

func parsePort(text string) (uint16, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("port %q is not a number from 1 to 65535", text)
	}
	return uint16(port), nil
}
