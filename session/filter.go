package session

import (
	"net/netip"

	"pillion.dev/wire/fivetuple"
)

// RulesMax is the maximum number of rules of a source on one interface; a filter needs
// one rule for each peer address that it can match.
const RulesMax = 64

// rule is a match rule of a source's BPF program.
type rule struct {
	filter fivetuple.Filter
	to     netip.Addr
}

// addRules adds the rules that a source needs for the task. Invalid addresses need
// none.
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
