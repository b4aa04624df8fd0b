package session

import (
	"fmt"
	"net/netip"
	"slices"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// RulesMax is the maximum number of rules of a source on one interface; a filter needs
// one rule for each address of the source and of a peer that it can match.
const RulesMax = wire.RulesMax

// rules returns the match rules that the BPF program of a source needs for the task. Invalid
// addresses need none.
func (t *SourceTask) rules() []fivetuple.Filter {
	own := t.own()
	var rules []fivetuple.Filter
	for _, filter := range t.filters() {
		for _, from := range own {
			narrowed, ok := filter, true
			if from.IsValid() {
				narrowed, ok = filter.From(from)
			}
			if !ok {
				continue
			}
			for _, to := range t.peers() {
				if rule, ok := narrowed.To(to); ok {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules
}

// filters returns the filters of the task, or one that matches all packets.
func (t *SourceTask) filters() []fivetuple.Filter {
	if len(t.Filters) == 0 {
		return []fivetuple.Filter{{}}
	}
	return t.Filters
}

// rules are the filters that the BPF program of a destination needs for the task.
func (t *DestinationTask) rules() (rules []fivetuple.Filter) {
	for _, prefix := range t.Amended() {
		rules = append(rules, fivetuple.Filter{Dst: prefix})
	}
	return append(rules, t.Filters...)
}

// Behind are the prefixes of the hosts behind this one.
func (t *DestinationTask) Behind() []netip.Prefix { return parsed(t.Transit) }

// own is Own, or an invalid prefix: any.
func (t *SourceTask) own() []netip.Prefix {
	if own := t.Own(); len(own) > 0 {
		return own
	}
	return []netip.Prefix{{}}
}

// Own are the sources of the packets that are marked: the hosts behind this one, or else its
// addresses; none: any. Invalid ones are left out.
func (t *SourceTask) Own() []netip.Prefix {
	if len(t.Transit) > 0 {
		return parsed(t.Transit)
	}
	return singles(t.Addresses)
}

func (t *SourceTask) peers() (peers []netip.Prefix) {
	for _, peer := range t.Peers {
		peers = append(peers, peer.Ends()...)
	}
	return peers
}

// Ends are the addresses that packets to a peer have as their destination, and those from it as
// their source: of the hosts behind it, or else its own. Invalid ones are left out.
func (p *Peer) Ends() []netip.Prefix {
	if len(p.Prefixes) > 0 {
		return parsed(p.Prefixes)
	}
	return singles(p.Addresses)
}

func parsed(texts []string) (prefixes []netip.Prefix) {
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			prefixes = append(prefixes, prefix.Masked())
		}
	}
	return prefixes
}

func singles(addresses []string) (prefixes []netip.Prefix) {
	for _, text := range addresses {
		if address, err := netip.ParseAddr(text); err == nil {
			prefixes = append(prefixes, netip.PrefixFrom(address, address.BitLen()))
		}
	}
	return prefixes
}

// countRules returns how many different rules the tasks need together.
func countRules(tasks []SourceTask) int {
	set := map[fivetuple.Filter]bool{}
	for i := range tasks {
		for _, rule := range tasks[i].rules() {
			set[rule] = true
		}
	}
	return len(set)
}

// Overlaps reports whether both tasks are for some packet.
func (t *SourceTask) Overlaps(o SourceTask) bool {
	_, _, ok := overlap(*t, o)
	return ok
}

// overlap returns a rule of each task that some packet matches both of, if there is one. It
// looks at the addresses that both have, so it takes no longer where there are many peers.
func overlap(a, b SourceTask) (ofA, ofB fivetuple.Filter, ok bool) {
	from, to := common(a.own(), b.own()), common(a.peers(), b.peers())
	narrow := func(filter fivetuple.Filter, from, to netip.Prefix) fivetuple.Filter {
		if from.IsValid() {
			filter, _ = filter.From(from)
		}
		filter, _ = filter.To(to)
		return filter
	}
	for _, f := range a.filters() {
		for _, g := range b.filters() {
			both, ok := f.Intersect(g)
			if !ok {
				continue
			}
			for _, src := range from {
				narrowed, ok := both, true
				if src.IsValid() {
					narrowed, ok = both.From(src)
				}
				if !ok {
					continue
				}
				if i := slices.IndexFunc(to, func(dst netip.Prefix) bool { _, ok := narrowed.To(dst); return ok }); i >= 0 {
					return narrow(f, src, to[i]), narrow(g, src, to[i]), true
				}
			}
		}
	}
	return fivetuple.Filter{}, fivetuple.Filter{}, false
}

// someOverlap returns a filter of each list that some packet matches both of, as text, if there is one.
// No filters stand for all packets.
func someOverlap(a, b []fivetuple.Filter) (ofA, ofB string, ok bool) {
	if len(a) == 0 || len(b) == 0 {
		return filtersText(a), filtersText(b), true
	}
	for _, f := range a {
		for _, g := range b {
			if f.Overlaps(g) {
				return fmt.Sprintf("%q", f), fmt.Sprintf("%q", g), true
			}
		}
	}
	return "", "", false
}

// Overlaps reports whether both sessions are for some packet, of those that go between the same hosts.
func (s Spec) Overlaps(o Spec) bool {
	if s.Family == IPv4 && o.Family == IPv6 || s.Family == IPv6 && o.Family == IPv4 {
		return false
	}
	_, _, ok := someOverlap(s.Filters, o.Filters)
	return ok
}

// common returns what is in the prefixes of both lists; an invalid one stands for any.
func common(a, b []netip.Prefix) (both []netip.Prefix) {
	if slices.Contains(a, netip.Prefix{}) {
		return b
	}
	if slices.Contains(b, netip.Prefix{}) {
		return a
	}
	in := make(map[netip.Prefix]bool, len(a))
	for _, p := range a {
		in[p] = true
	}
	for _, p := range b {
		if in[p] {
			both = append(both, p)
		}
	}
	return append(append(both, inside(a, b)...), inside(b, a)...)
}

// inside returns the prefixes of a list that are part of a larger one of the other list.
func inside(list, others []netip.Prefix) (parts []netip.Prefix) {
	for _, larger := range others {
		if larger.IsSingleIP() {
			continue // as nearly all are
		}
		for _, p := range list {
			if p.Bits() > larger.Bits() && larger.Overlaps(p) {
				parts = append(parts, p)
			}
		}
	}
	return parts
}
