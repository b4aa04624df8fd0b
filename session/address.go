package session

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Addresses are the addresses that identify each host uniquely, by host.
type Addresses map[string][]netip.Addr

// Distinct finds these addresses. An address that several hosts share, such as the address of a container bridge,
// does not identify the destination of a packet; it is ignored, with a warning, unless one of the hosts keeps it.
// Connected hosts take precedence over disconnected ones.
func Distinct(hosts []Host) (Addresses, []string) {
	type owner struct {
		first int   // in hosts
		more  []int // rarely any
	}
	owners := make(map[netip.Addr]owner, 2*len(hosts))
	var warnings []string
	for i, host := range hosts {
		for _, text := range host.Addresses {
			if keeper := host.Conflicts[text]; keeper != "" {
				warnings = append(warnings, fmt.Sprintf("address %s of %s is ignored: %s has it", text, host.Name, keeper))
				continue
			}
			addr, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			own, found := owners[addr]
			switch {
			case !found:
				owners[addr] = owner{first: i}
			case own.first != i && !slices.Contains(own.more, i):
				own.more = append(own.more, i)
				owners[addr] = own
			}
		}
	}
	addresses := make(Addresses, len(hosts))
	for addr, own := range owners {
		all := append([]int{own.first}, own.more...)
		if slices.ContainsFunc(all, func(i int) bool { return hosts[i].Connected }) {
			all = slices.DeleteFunc(all, func(i int) bool { return !hosts[i].Connected })
		}
		if len(all) == 1 {
			name := hosts[all[0]].Name
			addresses[name] = append(addresses[name], addr)
			continue
		}
		names := make([]string, len(all))
		for i, n := range all {
			names[i] = hosts[n].Name
		}
		slices.Sort(names)
		warnings = append(warnings, fmt.Sprintf("address %v is ignored: %s share it", addr, strings.Join(names, " and ")))
	}
	for _, own := range addresses {
		slices.SortFunc(own, netip.Addr.Compare)
	}
	slices.Sort(warnings)
	return addresses, warnings
}

// peer is a host as a peer, with its addresses of the families that the session marks.
func (a Addresses) peer(spec Spec, host string) Peer {
	peer := Peer{Agent: host, Prefixes: spec.textsBehind(host)}
	for _, addr := range a[host] {
		if spec.marks(addr.Is4()) {
			peer.Addresses = append(peer.Addresses, addr.String())
		}
	}
	return peer
}

// usable returns the pairs of which both hosts have addresses that the session marks. The
// specification is complete.
func (a Addresses) usable(spec Spec, pairs []Pair) []Pair {
	known := map[string]bool{}
	usable := func(host string) bool {
		found, ok := known[host]
		if !ok {
			found = slices.ContainsFunc(a[host], func(addr netip.Addr) bool { return spec.marks(addr.Is4()) })
			known[host] = found
		}
		return found
	}
	return slices.DeleteFunc(slices.Clone(pairs), func(p Pair) bool { return !usable(p.Source) || !usable(p.Destination) })
}

// Lack returns why no packets to or from a host can be measured; empty: they can. The
// specification is complete.
func (a Addresses) Lack(spec Spec, host Host) string {
	why := ""
	switch {
	case len(host.Addresses) == 0:
		why = "it reports none"
	case len(a[host.Name]) == 0:
		why = "other agents report the same ones"
	case len(a.peer(spec, host.Name).Addresses) == 0:
		why = fmt.Sprintf("none that is marked with family %s and encoding %s", spec.Family, spec.Encoding)
	default:
		return ""
	}
	return fmt.Sprintf("%s has no usable address: %s", host.Name, why)
}

// first returns the first address of each family.
func (p Peer) first() []string {
	var first []string
	seen := map[bool]bool{}
	for _, text := range p.Addresses {
		if addr, err := netip.ParseAddr(text); err == nil && !seen[addr.Is4()] {
			seen[addr.Is4()] = true
			first = append(first, text)
		}
	}
	return first
}
