package lab

import (
	"maps"
	"net/netip"
	"slices"
)

// route is a static route to one address.
type route struct {
	to  netip.Prefix // a single address
	via netip.Addr
}

// neighbour is the host at the other end of a link.
type neighbour struct {
	host string
	link *Link
}

// routes computes the static routes of every host: one to each address that is
// not on a link of the host itself, over a shortest path through routers. Of equal paths,
// that over the first link of the file is used; without a path there is no route.
func (s *Spec) routes() map[string][]route {
	neighbours := s.neighbours()
	all := map[string][]route{}
	for _, host := range slices.Sorted(maps.Keys(s.Hosts)) {
		first := s.firstHops(host, neighbours)
		for _, l := range s.Links {
			for _, owner := range l.Ends {
				hop, reachable := first[owner]
				if !reachable || slices.Contains(l.Ends, host) {
					continue
				}
				for _, address := range l.Addresses[owner] {
					if via, ok := gateway(hop, address.Addr()); ok {
						to := netip.PrefixFrom(address.Addr(), address.Addr().BitLen())
						all[host] = append(all[host], route{to, via})
					}
				}
			}
		}
	}
	return all
}

func (s *Spec) neighbours() map[string][]neighbour {
	all := map[string][]neighbour{}
	for i := range s.Links {
		l := &s.Links[i]
		all[l.Ends[0]] = append(all[l.Ends[0]], neighbour{l.Ends[1], l})
		all[l.Ends[1]] = append(all[l.Ends[1]], neighbour{l.Ends[0], l})
	}
	return all
}

// firstHops finds the next hop to each host by breadth-first search.
func (s *Spec) firstHops(from string, neighbours map[string][]neighbour) map[string]neighbour {
	first := map[string]neighbour{}
	var queue []string
	for _, n := range neighbours[from] {
		if _, seen := first[n.host]; !seen {
			first[n.host] = n
			queue = append(queue, n.host)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		here := queue[0]
		if !s.Hosts[here].Forward {
			continue
		}
		for _, n := range neighbours[here] {
			if _, seen := first[n.host]; !seen && n.host != from {
				first[n.host] = first[here]
				queue = append(queue, n.host)
			}
		}
	}
	return first
}

// gateway is the neighbour's first address on the link in the same family as to.
func gateway(hop neighbour, to netip.Addr) (netip.Addr, bool) {
	for _, address := range hop.link.Addresses[hop.host] {
		if address.Addr().Is4() == to.Is4() {
			return address.Addr(), true
		}
	}
	return netip.Addr{}, false
}
