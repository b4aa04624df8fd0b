package session

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// RulesMax is how many rules a source can have on one interface; a filter makes a
// rule for each address of a peer that it can meet.
const RulesMax = 64

// Filter chooses packets by five-tuple. What is not set is a wildcard.
type Filter struct {
	Src, Dst    netip.Prefix
	Protocol    uint8
	HasProtocol bool
	Sport       uint16
	Dport       uint16
}

// ParseFilter reads 'src=P dst=P proto=tcp sport=N dport=N', each at most once, in
// any order; P is a prefix or an address. The probes read the same.
func ParseFilter(text string) (Filter, error) {
	var filter Filter
	seen := map[string]bool{}
	for _, field := range strings.Fields(text) {
		name, value, ok := strings.Cut(field, "=")
		if !ok {
			return Filter{}, fmt.Errorf("read filter %q: %q is not name=value", text, field)
		}
		if seen[name] {
			return Filter{}, fmt.Errorf("read filter %q: %s twice", text, name)
		}
		seen[name] = true
		if err := filter.set(name, value); err != nil {
			return Filter{}, fmt.Errorf("read filter %q: %w", text, err)
		}
	}
	if len(seen) == 0 {
		return Filter{}, fmt.Errorf("read filter %q: it is empty", text)
	}
	if filter.Src.IsValid() && filter.Dst.IsValid() && filter.Src.Addr().Is4() != filter.Dst.Addr().Is4() {
		return Filter{}, fmt.Errorf("read filter %q: src and dst are of different families", text)
	}
	return filter, nil
}

func (f *Filter) set(name, value string) error {
	var err error
	switch name {
	case "src":
		f.Src, err = parsePrefix(value)
	case "dst":
		f.Dst, err = parsePrefix(value)
	case "proto":
		f.Protocol, err = parseProtocol(value)
		f.HasProtocol = true
	case "sport":
		f.Sport, err = parsePort(value)
	case "dport":
		f.Dport, err = parsePort(value)
	default:
		err = fmt.Errorf("no field %q; there are src, dst, proto, sport, dport", name)
	}
	return err
}

func parsePrefix(text string) (netip.Prefix, error) {
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

var protocols = map[string]uint8{
	"icmp": 1, "tcp": 6, "udp": 17, "dccp": 33, "icmpv6": 58, "sctp": 132, "udplite": 136,
}

func parseProtocol(text string) (uint8, error) {
	if number, ok := protocols[text]; ok {
		return number, nil
	}
	number, err := strconv.ParseUint(text, 10, 8)
	if err != nil || strconv.FormatUint(number, 10) != text {
		return 0, fmt.Errorf("protocol %q is neither a name such as tcp nor a number up to 255", text)
	}
	return uint8(number), nil
}

// family reports which family the filter is bound to by its addresses.
func (f Filter) family() (is4, bound bool) {
	for _, p := range []netip.Prefix{f.Src, f.Dst} {
		if p.IsValid() {
			return p.Addr().Is4(), true
		}
	}
	return false, false
}

// meets reports whether a packet to that address can fit.
func (f Filter) meets(to netip.Addr) bool {
	if is4, bound := f.family(); bound && is4 != to.Is4() {
		return false
	}
	return !f.Dst.IsValid() || f.Dst.Contains(to)
}

// rule is what a source's program compares packets with.
type rule struct {
	filter Filter
	to     netip.Addr
}

// addRules puts into the set what a source needs for the task. Broken filters and
// addresses make none.
func addRules(set map[rule]bool, task SourceTask) {
	filters := []Filter{{}}
	if len(task.Filters) > 0 {
		filters = filters[:0]
		for _, text := range task.Filters {
			if filter, err := ParseFilter(text); err == nil {
				filters = append(filters, filter)
			}
		}
	}
	for _, peer := range task.Peers {
		for _, text := range peer.Addresses {
			addr, err := netip.ParseAddr(text)
			for _, filter := range filters {
				if err == nil && filter.meets(addr) {
					set[rule{filter, addr}] = true
				}
			}
		}
	}
}
