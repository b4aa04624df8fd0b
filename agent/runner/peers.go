package runner

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pillion.dev/probe/destination"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// everything is the filter of a session without filters.
var everything fivetuple.Filter

// rules returns the rules of a session's filters. Where sessions identify flows by different fields, each rule
// names the fields of its session.
func (t *destinationTask) rules(differ bool) []destination.Rule {
	filters := t.Filters
	if len(filters) == 0 {
		filters = []fivetuple.Filter{everything}
	}
	rules := destination.Rules(filters...)
	for i := range rules {
		if differ {
			rules[i].Flow = t.Fields()
		}
	}
	return rules
}

// readsMarks reports whether marks count for the task. A waypoint only writes into them.
func readsMarks(t destinationTask) bool { return len(t.amended) == 0 }

// fieldsDiffer reports whether sessions tell flows apart by different fields.
func fieldsDiffer(tasks []destinationTask) bool {
	i := slices.IndexFunc(tasks, readsMarks)
	return i >= 0 && slices.ContainsFunc(tasks, func(t destinationTask) bool { return readsMarks(t) && t.Fields() != tasks[i].Fields() })
}

// peerTable collects which marks of which peers count. For a while it remembers what it was
// told before: marks that were written under it are still on their way.
type peerTable struct {
	remembered map[origin]remembered
	// limits say what of a session is not done, by session.
	limits map[string]string
}

// peers returns the peers of the tasks, for the BPF program. Times are of the monotonic clock.
func (t *peerTable) peers(tasks []destinationTask, now time.Duration) (destination.Peers, destination.Ingresses) {
	if local := tasks[0].local; local != nil {
		return local.Peers, nil
	}
	wanted, limits := wantedPeers(tasks)
	untaggedLimits(tasks, limits)
	t.limits = limits
	peers := t.remember(wanted, now, fieldsDiffer(tasks))
	if differentRules(peers) > destination.FiltersMax { // what is wanted now comes first
		return split(wanted)
	}
	return split(peers)
}

// split returns the peers by the prefixes and by the numbers that their marks are attributed by.
func split(all map[origin]destination.Peer) (destination.Peers, destination.Ingresses) {
	peers, ingresses := destination.Peers{}, destination.Ingresses{}
	for from, peer := range all {
		if from.number != 0 {
			ingresses[from.number] = peer
		} else {
			peers[from.prefix] = peer
		}
	}
	return peers, ingresses
}

// remember returns the peers with what else still counts.
func (t *peerTable) remember(wanted map[origin]destination.Peer, now time.Duration, differ bool) map[origin]destination.Peer {
	if t.remembered == nil {
		t.remembered = map[origin]remembered{}
	}
	for from := range t.remembered {
		if _, ok := wanted[from]; !ok {
			delete(t.remembered, from)
		}
	}
	peers := map[origin]destination.Peer{}
	for from, peer := range wanted {
		known, ok := t.remembered[from]
		if !ok {
			known = remembered{map[destination.Rule]time.Duration{}, map[destination.Rule]time.Duration{}}
			t.remembered[from] = known
		}
		known.note(peer, now)
		peer.Rules = known.rules(peer, now)
		peer.Unread = len(peer.Rules) == 0
		peers[from] = simplify(peer, differ)
	}
	return peers
}

// wantedPeers returns the peers of all sessions, with as many keys as fit, and for which sessions some do not fit.
func wantedPeers(tasks []destinationTask) (peers map[origin]destination.Peer, limits map[string]string) {
	peers = map[origin]destination.Peer{}
	differ := fieldsDiffer(tasks)
	for _, task := range tasks {
		rules := task.rules(differ)
		for i := range rules {
			rules[i].Untagged = !task.Authenticated
		}
		for from := range task.origins() {
			peer := peers[from]
			if !readsMarks(task) {
				peer.Amends = append(peer.Amends, toEach(task.amended)...)
			} else {
				peer.Rules = append(peer.Rules, rules...)
			}
			peers[from] = peer
		}
	}
	for from, peer := range peers {
		peer.Unread = len(peer.Rules) == 0 // no task reads
		peers[from] = peer
	}
	limits = addKeys(peers, tasks)
	inherit(peers)
	for from, peer := range peers {
		peers[from] = simplify(peer, differ)
	}
	return peers, limits
}

// addKeys adds the keys of the first sessions, by one of which a source writes its marks if
// its sessions share an interface. It returns what others should know.
func addKeys(peers map[origin]destination.Peer, tasks []destinationTask) (limits map[string]string) {
	limits = map[string]string{}
	for _, task := range tasks {
		if !task.Authenticated {
			continue
		}
		keys := map[string]wire.Key{}
		for _, peer := range task.Peers {
			if key, ok := markKey(peer); ok {
				keys[peer.Agent] = key
			}
		}
		for from, agent := range task.origins() {
			key, ok := keys[agent]
			peer := peers[from]
			switch {
			case !ok || slices.Contains(peer.Keys, key):
			case len(peer.Keys) < destination.KeysMax:
				peer.Keys = append(peer.Keys, key)
				peers[from] = peer
			default:
				limits[task.Session] = fmt.Sprintf("%d other sessions have %s as a source, and no more keys of a peer fit: its marks are read only if it marks for one of these on the same interface",
					destination.KeysMax, agent)
			}
		}
	}
	return limits
}

// inherit adds to each prefix what counts for larger ones: the program looks at the smallest only.
func inherit(peers map[origin]destination.Peer) {
	lengths := map[int]bool{} // of prefixes, in bits
	for from := range peers {
		if from.prefix.IsValid() && !from.prefix.IsSingleIP() {
			lengths[from.prefix.Bits()] = true
		}
	}
	ascending := slices.Sorted(maps.Keys(lengths)) // the largest prefixes first
	for from, peer := range peers {
		for _, bits := range ascending {
			if !from.prefix.IsValid() || bits >= from.prefix.Bits() {
				break
			}
			larger := origin{prefix: netip.PrefixFrom(from.prefix.Addr(), bits).Masked()}
			if _, ok := peers[larger]; !ok {
				continue
			}
			for _, key := range peers[larger].Keys {
				if len(peer.Keys) < destination.KeysMax && !slices.Contains(peer.Keys, key) {
					peer.Keys = append(slices.Clip(peer.Keys), key)
				}
			}
			peer.Rules = append(slices.Clip(peer.Rules), peers[larger].Rules...)
			peer.Amends = append(slices.Clip(peer.Amends), peers[larger].Amends...)
			peer.Unread = peer.Unread && peers[larger].Unread
		}
		peers[from] = peer
	}
}

// simplify sorts the rules, so that equal ones are found to be, and omits them if one
// matches everything, unless they say by which fields flows are told apart or which of them need
// a tag.
func simplify(peer destination.Peer, differ bool) destination.Peer {
	peer.Amends, peer.Rules = sorted(peer.Amends, compareFilters), slices.Clone(peer.Rules)
	if needsTag := func(r destination.Rule) bool { return !r.Untagged }; len(peer.Rules) > 0 && !slices.ContainsFunc(peer.Rules, needsTag) {
		peer.Keys = nil
	}
	for i := range peer.Rules {
		rule := &peer.Rules[i]
		rule.Untagged = rule.Untagged && len(peer.Keys) > 0
		if !differ {
			rule.Flow = 0
		}
	}
	if !differ && slices.Contains(peer.Rules, destination.Rule{Filter: everything}) {
		peer.Rules = nil
		return peer
	}
	peer.Rules = sorted(peer.Rules, func(a, b destination.Rule) int {
		return cmp.Or(cmp.Compare(a.Flow, b.Flow), compareFilters(a.Filter, b.Filter), compareFlags(a.Untagged, b.Untagged))
	})
	return peer
}

// compareFlags puts what is not set first.
func compareFlags(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func compareFilters(a, b fivetuple.Filter) int { return strings.Compare(a.String(), b.String()) }

// sorted returns each once.
func sorted[T comparable](list []T, compare func(a, b T) int) []T {
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return slices.Compact(list)
}

// toEach returns a filter for the packets to each prefix.
func toEach(prefixes []netip.Prefix) (filters []fivetuple.Filter) {
	for _, prefix := range prefixes {
		filters = append(filters, fivetuple.Filter{Dst: prefix})
	}
	return filters
}

func differentRules(peers map[origin]destination.Peer) int {
	all := map[destination.Rule]bool{}
	for _, peer := range peers {
		for _, rule := range append(slices.Clone(peer.Rules), destination.Rules(peer.Amends...)...) {
			all[bare(rule)] = true
		}
	}
	return len(all)
}
