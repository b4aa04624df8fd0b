package session

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"pillion.dev/wire"
)

// transitMax is the maximum number of prefixes behind one agent.
const transitMax = 16

// prefixesOf parses the prefixes behind an agent, separated by commas.
func prefixesOf(text string) (prefixes []netip.Prefix, err error) {
	for part := range strings.SplitSeq(text, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(part))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is not a prefix, such as 2001:db8:a::/48", part)
		case prefix.Bits() == 0:
			return nil, fmt.Errorf("%v contains all addresses", prefix)
		case prefix != prefix.Masked():
			return nil, fmt.Errorf("%v has bits beyond its length: write %v", prefix, prefix.Masked())
		case prefix.Addr().Is4In6():
			return nil, fmt.Errorf("%v is IPv4 in IPv6: write an IPv4 prefix", prefix)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

// behind returns the prefixes of the hosts behind an agent, of the families that the session
// marks; none: the session measures the agent itself.
func (s Spec) behind(agent string) (prefixes []netip.Prefix) {
	all, _ := prefixesOf(s.Transit[agent]) // Validate has checked them
	for _, prefix := range all {
		if s.marks(prefix.Addr().Is4()) {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// textsBehind returns them as texts, nil without any.
func (s Spec) textsBehind(agent string) (texts []string) {
	for _, prefix := range s.behind(agent) {
		texts = append(texts, prefix.String())
	}
	return texts
}

// transit checks the prefixes behind agents: each of them is behind one agent only, or packets
// would be of two pairs.
func (p *problems) transit(s Spec) {
	p.hosts("transit", len(s.Transit))
	type owned struct {
		netip.Prefix
		agent string
	}
	var known []owned
	for _, agent := range slices.Sorted(maps.Keys(s.Transit)) {
		field := "transit[" + agent + "]"
		if !ValidName(agent) {
			p.add(field, "invalid agent name %q: %s", agent, nameRule)
		}
		prefixes, err := prefixesOf(s.Transit[agent])
		if err != nil {
			p.add(field, "%v", err)
			continue
		}
		if len(prefixes) > transitMax {
			p.add(field, "%d prefixes, limit %d", len(prefixes), transitMax)
			continue
		}
		for _, prefix := range prefixes {
			if why := s.cannotForward(prefix); why != "" {
				p.add(field, "%s", why)
			}
			for _, other := range known {
				if other.Overlaps(prefix) {
					p.add(field, "%v overlaps %v of %s: a host can be behind one agent only", prefix, other.Prefix, other.agent)
				}
			}
			known = append(known, owned{prefix, agent})
		}
	}
	if len(s.Transit) > 0 && s.SparseMarks {
		p.add("transit", "packets without a mark do not show which agent they passed: transit cannot be combined with sparse marks")
	}
}

// cannotForward returns why packets to a prefix that a host forwards are not marked; empty: they
// are.
func (s Spec) cannotForward(prefix netip.Prefix) string {
	family := wire.ClassIPv6
	if prefix.Addr().Is4() {
		family = wire.ClassIPv4
	}
	switch {
	case !s.marks(prefix.Addr().Is4()):
		return fmt.Sprintf("%v: family %s with encoding %s does not mark such addresses", prefix, s.Family, s.Encoding)
	case !s.encodes(family|wire.ClassUDP|wire.ClassForwarded) && !s.encodes(family|wire.ClassTCP|wire.ClassForwarded):
		return fmt.Sprintf("%v: encoding %s does not mark packets that a host forwards: add one of %s", prefix, s.Encoding, forwarding(family))
	}
	return ""
}

// forwarding returns the names of the encodings for packets of a family that a host forwards.
func forwarding(family wire.Class) string {
	encodings := slices.DeleteFunc(wire.Encodings(), func(e wire.Encoding) bool { return !e.Applies(family | wire.ClassUDP | wire.ClassForwarded) })
	return strings.Join(namesOf(encodings), ", ")
}

// overlapping returns the prefixes behind agents that contain the address of an agent of the
// session, whose own packets would count as forwarded ones.
func (s Spec) overlapping(pairs []Pair, addresses Addresses) (warnings []string) {
	members := map[string]bool{}
	for _, pair := range pairs {
		members[pair.Source], members[pair.Destination] = true, true
	}
	for agent := range s.Transit {
		if !members[agent] {
			warnings = append(warnings, fmt.Sprintf("transit[%s]: %s is not part of the session", agent, agent))
		}
		for _, prefix := range s.behind(agent) {
			for member := range members {
				for _, address := range addresses[member] {
					if prefix.Contains(address) {
						warnings = append(warnings, fmt.Sprintf("transit[%s]: %v contains %v of %s, whose own packets are marked like packets of hosts behind %s", agent, prefix, address, member, agent))
					}
				}
			}
		}
	}
	slices.Sort(warnings)
	return warnings
}

// untraced warns of packets in whose marks routers cannot write: those that a host forwards.
func (s Spec) untraced(pairs []Pair) (warnings []string) {
	if s.Hops != HopsIOAM {
		return nil
	}
	sources := map[string]bool{}
	for _, pair := range pairs {
		if sources[pair.Source] || len(s.behind(pair.Source)) == 0 {
			continue
		}
		sources[pair.Source] = true
		warnings = append(warnings, fmt.Sprintf("hops: packets of hosts behind %s have no room for the times of routers: their hops are not measured", pair.Source))
	}
	return warnings
}
