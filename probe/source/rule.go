package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"pillion.dev/probe/flow"
)

// ErrRule marks a filter that is not understood.
var ErrRule = errors.New("bad filter")

// Rule chooses packets by five-tuple. What is not set is a wildcard.
type Rule struct {
	Src, Dst    netip.Prefix
	Protocol    uint8
	HasProtocol bool
	Sport       uint16
	Dport       uint16
}

// ParseRule reads 'src=P dst=P proto=tcp sport=N dport=N', each at most once, in
// any order; P is a prefix or an address.
func ParseRule(text string) (Rule, error) {
	var rule Rule
	seen := map[string]bool{}
	for _, field := range strings.Fields(text) {
		name, value, ok := strings.Cut(field, "=")
		if !ok {
			return Rule{}, fmt.Errorf("read filter %q: %w: %q is not name=value", text, ErrRule, field)
		}
		if seen[name] {
			return Rule{}, fmt.Errorf("read filter %q: %w: %s twice", text, ErrRule, name)
		}
		seen[name] = true
		if err := rule.set(name, value); err != nil {
			return Rule{}, fmt.Errorf("read filter %q: %w: %w", text, ErrRule, err)
		}
	}
	if len(seen) == 0 {
		return Rule{}, fmt.Errorf("read filter %q: %w: it is empty", text, ErrRule)
	}
	if rule.Src.IsValid() && rule.Dst.IsValid() && rule.Src.Addr().Is4() != rule.Dst.Addr().Is4() {
		return Rule{}, fmt.Errorf("read filter %q: %w: src and dst are of different families", text, ErrRule)
	}
	return rule, nil
}

func (r *Rule) set(name, value string) error {
	var err error
	switch name {
	case "src":
		r.Src, err = ParsePrefix(value)
	case "dst":
		r.Dst, err = ParsePrefix(value)
	case "proto":
		r.Protocol, err = flow.ParseProtocol(value)
		r.HasProtocol = true
	case "sport":
		r.Sport, err = parsePort(value)
	case "dport":
		r.Dport, err = parsePort(value)
	default:
		err = fmt.Errorf("no field %q; there are src, dst, proto, sport, dport", name)
	}
	return err
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

// Combine narrows each rule to each of the destinations: what fits both. Without
// rules the destinations are the rules, without destinations nothing changes.
func Combine(rules []Rule, to []netip.Prefix) ([]Rule, error) {
	if len(to) == 0 {
		return rules, nil
	}
	if len(rules) == 0 {
		rules = []Rule{{}}
	}
	var combined []Rule
	for _, rule := range rules {
		for _, prefix := range to {
			if narrowed, ok := rule.within(prefix); ok {
				combined = append(combined, narrowed)
			}
		}
	}
	if len(combined) == 0 {
		return nil, fmt.Errorf("combine filters with destinations: %w: no packet can fit both", ErrRule)
	}
	return combined, nil
}

func (r Rule) within(prefix netip.Prefix) (Rule, bool) {
	if r.Src.IsValid() && r.Src.Addr().Is4() != prefix.Addr().Is4() {
		return r, false
	}
	if !r.Dst.IsValid() {
		r.Dst = prefix
		return r, true
	}
	if !r.Dst.Overlaps(prefix) {
		return r, false
	}
	if prefix.Bits() > r.Dst.Bits() {
		r.Dst = prefix
	}
	return r, true
}

// Fits reports whether the rule chooses packets of the flow.
func (r Rule) Fits(k flow.Key) bool {
	return (!r.Src.IsValid() || r.Src.Contains(k.Src)) && (!r.Dst.IsValid() || r.Dst.Contains(k.Dst)) &&
		(!r.HasProtocol || r.Protocol == k.Protocol) &&
		(r.Sport == 0 || r.Sport == k.Sport) && (r.Dport == 0 || r.Dport == k.Dport)
}

// raw is struct rule of rule.h.
func (r Rule) raw() sourceRule {
	var raw sourceRule
	for _, p := range []netip.Prefix{r.Src, r.Dst} {
		if p.IsValid() {
			raw.Family = 6
			if p.Addr().Is4() {
				raw.Family = 4
			}
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
