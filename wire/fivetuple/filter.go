package fivetuple

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ErrFilter marks an invalid filter.
var ErrFilter = errors.New("invalid filter")

// Filter matches packets by five-tuple. A field that is not set matches anything.
type Filter struct {
	Src, Dst    netip.Prefix
	Protocol    uint8
	HasProtocol bool
	Sport       uint16
	Dport       uint16
}

// ParseFilter reads 'src=P dst=P proto=tcp sport=N dport=N', each at most once, in
// any order; P is a prefix or an address.
func ParseFilter(text string) (Filter, error) {
	filter, err := parse(text)
	if err != nil {
		return Filter{}, fmt.Errorf("read filter %q: %w: %w", text, ErrFilter, err)
	}
	return filter, nil
}

func parse(text string) (Filter, error) {
	var filter Filter
	seen := map[string]bool{}
	for field := range strings.FieldsSeq(text) {
		name, value, ok := strings.Cut(field, "=")
		if !ok {
			return filter, fmt.Errorf("%q is not name=value", field)
		}
		if seen[name] {
			return filter, fmt.Errorf("%s is given twice", name)
		}
		seen[name] = true
		if err := filter.set(name, value); err != nil {
			return filter, err
		}
	}
	if len(seen) == 0 {
		return filter, errors.New("it is empty")
	}
	if filter.Src.IsValid() && filter.Dst.IsValid() && filter.Src.Addr().Is4() != filter.Dst.Addr().Is4() {
		return filter, errors.New("src and dst are of different families")
	}
	return filter, nil
}

func (f *Filter) set(name, value string) error {
	var err error
	switch name {
	case "src":
		f.Src, err = ParsePrefix(value)
	case "dst":
		f.Dst, err = ParsePrefix(value)
	case "proto":
		f.Protocol, err = ParseProtocol(value)
		f.HasProtocol = true
	case "sport":
		f.Sport, err = parsePort(value)
	case "dport":
		f.Dport, err = parsePort(value)
	default:
		err = fmt.Errorf("no field %q; the fields are src, dst, proto, sport, dport", name)
	}
	return err
}

// String is the filter as ParseFilter reads it; empty for one that matches
// everything.
func (f Filter) String() string {
	var fields []string
	add := func(given bool, name string, value any) {
		if given {
			fields = append(fields, fmt.Sprintf("%s=%v", name, value))
		}
	}
	for _, side := range []struct {
		name   string
		prefix netip.Prefix
	}{{"src", f.Src}, {"dst", f.Dst}} {
		if side.prefix.IsValid() && side.prefix.IsSingleIP() {
			add(true, side.name, side.prefix.Addr())
		} else {
			add(side.prefix.IsValid(), side.name, side.prefix)
		}
	}
	add(f.HasProtocol, "proto", ProtocolName(f.Protocol))
	add(f.Sport != 0, "sport", f.Sport)
	add(f.Dport != 0, "dport", f.Dport)
	return strings.Join(fields, " ")
}

// MarshalText writes the filter as String does.
func (f Filter) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads a filter as ParseFilter does.
func (f *Filter) UnmarshalText(text []byte) (err error) {
	*f, err = ParseFilter(string(text))
	return err
}

// Family reports the address family that the filter is bound to by its addresses,
// if any.
func (f Filter) Family() (is4, bound bool) {
	for _, p := range []netip.Prefix{f.Src, f.Dst} {
		if p.IsValid() {
			return p.Addr().Is4(), true
		}
	}
	return false, false
}

// Matches reports whether the filter matches packets of the flow.
func (f Filter) Matches(k Key) bool {
	return (!f.Src.IsValid() || f.Src.Contains(k.Src)) && (!f.Dst.IsValid() || f.Dst.Contains(k.Dst)) &&
		(!f.HasProtocol || f.Protocol == k.Protocol) &&
		(f.Sport == 0 || f.Sport == k.Sport) && (f.Dport == 0 || f.Dport == k.Dport)
}

// From narrows the filter to packets from the prefix; ok is false where no packet
// matches both.
func (f Filter) From(prefix netip.Prefix) (narrowed Filter, ok bool) {
	f.Src, ok = intersect(f.Src, f.Dst, prefix)
	return f, ok
}

// To narrows the filter to packets to the prefix; ok is false where no packet
// matches both.
func (f Filter) To(prefix netip.Prefix) (narrowed Filter, ok bool) {
	f.Dst, ok = intersect(f.Dst, f.Src, prefix)
	return f, ok
}

// Over returns what the filter says of these fields: it matches all packets of each aggregate by
// them of which the filter matches one.
func (f Filter) Over(fields Fields) Filter {
	if fields&Src == 0 {
		f.Src = netip.Prefix{}
	}
	if fields&Dst == 0 {
		f.Dst = netip.Prefix{}
	}
	if fields&Protocol == 0 {
		f.Protocol, f.HasProtocol = 0, false
	}
	if fields&Sport == 0 {
		f.Sport = 0
	}
	if fields&Dport == 0 {
		f.Dport = 0
	}
	return f
}

// Intersect returns the filter of the packets that match both; ok is false where there are none.
func (f Filter) Intersect(o Filter) (both Filter, ok bool) {
	ok = true
	if o.Src.IsValid() {
		f, ok = f.From(o.Src)
	}
	if ok && o.Dst.IsValid() {
		f, ok = f.To(o.Dst)
	}
	if !ok || f.HasProtocol && o.HasProtocol && f.Protocol != o.Protocol ||
		f.Sport != 0 && o.Sport != 0 && f.Sport != o.Sport || f.Dport != 0 && o.Dport != 0 && f.Dport != o.Dport {
		return Filter{}, false
	}
	if o.HasProtocol {
		f.Protocol, f.HasProtocol = o.Protocol, true
	}
	f.Sport, f.Dport = cmp.Or(f.Sport, o.Sport), cmp.Or(f.Dport, o.Dport)
	return f, true
}

// Overlaps reports whether some packet matches both filters.
func (f Filter) Overlaps(o Filter) bool {
	_, ok := f.Intersect(o)
	return ok
}

// Covers reports whether every packet that matches o matches f.
func (f Filter) Covers(o Filter) bool {
	both, ok := f.Intersect(o)
	return ok && both == o
}

// intersect is what one side and a prefix have in common, where the other side is
// of the same family.
func intersect(side, other, prefix netip.Prefix) (netip.Prefix, bool) {
	switch {
	case other.IsValid() && other.Addr().Is4() != prefix.Addr().Is4():
		return side, false
	case !side.IsValid():
		return prefix, true
	case !side.Overlaps(prefix):
		return side, false
	case prefix.Bits() > side.Bits():
		return prefix, true
	}
	return side, true
}

// Combine narrows each filter to each of the destinations. Without filters the
// destinations are the filters, without destinations nothing changes.
func Combine(filters []Filter, to []netip.Prefix) ([]Filter, error) {
	if len(to) == 0 {
		return filters, nil
	}
	if len(filters) == 0 {
		filters = []Filter{{}}
	}
	var combined []Filter
	for _, filter := range filters {
		for _, prefix := range to {
			if narrowed, ok := filter.To(prefix); ok {
				combined = append(combined, narrowed)
			}
		}
	}
	if len(combined) == 0 {
		return nil, fmt.Errorf("combine filters with destinations: %w: no packet matches both", ErrFilter)
	}
	return combined, nil
}
