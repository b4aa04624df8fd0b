package session

import (
	"net/netip"

	"pillion.dev/wire/fivetuple"
)

// RulesMax is how many rules a source can have on one interface; a filter makes a
// rule for each address of a peer that it can match.
const RulesMax = 64

// rule is what a source's program compares packets with.
type rule struct {
	filter fivetuple.Filter
	to     netip.Addr
}

// addRules puts into the set the rules that a source needs for the task. Invalid
// addresses make none.
func addRules(set map[rule]bool, task SourceTask) {
	filters := task.Filters
	if len(filters) == 0 {
		filters = []fivetuple.Filter{{}}
	}
	for _, peer := range task.Peers {
		for _, text := range peer.Addresses {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			for _, filter := range filters {
				if _, ok := filter.To(netip.PrefixFrom(addr, addr.BitLen())); ok {
					set[rule{filter, addr}] = true
				}
			}
		}
	}
}
