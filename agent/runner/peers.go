package runner

import (
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

// peerTable collects which marks of which peers count. For a while it remembers what it was
// told before: marks that were written under it are still on their way.
type peerTable struct {
	untagged map[netip.Prefix]time.Time                      // when marks of a peer last needed no tag
	selected map[netip.Prefix]map[fivetuple.Filter]time.Time // when a filter was last one of a peer's
}

// peers returns those of the tasks, for the program.
func (t *peerTable) peers(tasks []destinationTask, now time.Time) destination.Peers {
	if local := tasks[0].local; local != nil {
		return local.Peers
	}
	wanted := wantedPeers(tasks)
	peers := t.remember(wanted, now)
	if differentFilters(peers) > destination.FiltersMax { // what is wanted now comes first
		return wanted
	}
	return peers
}

// remember returns the peers with what else still counts.
func (t *peerTable) remember(wanted destination.Peers, now time.Time) destination.Peers {
	if t.untagged == nil {
		t.untagged, t.selected = map[netip.Prefix]time.Time{}, map[netip.Prefix]map[fivetuple.Filter]time.Time{}
	}
	for prefix := range t.selected {
		if _, ok := wanted[prefix]; !ok {
			delete(t.selected, prefix)
		}
	}
	peers := destination.Peers{}
	for prefix, peer := range wanted {
		if len(peer.Keys) == 0 {
			t.untagged[prefix] = now
		} else if last, ok := t.untagged[prefix]; ok && now.Sub(last) < strictAfter {
			peer.Keys = nil
		}
		last := t.selected[prefix]
		if last == nil {
			last = map[fivetuple.Filter]time.Time{}
			t.selected[prefix] = last
		}
		for _, filter := range peer.Filters {
			last[filter] = now
		}
		if len(peer.Filters) == 0 {
			last[everything] = now
		}
		peer.Filters = nil
		for filter, seen := range last {
			if now.Sub(seen) >= strictAfter {
				delete(last, filter)
			} else {
				peer.Filters = append(peer.Filters, filter)
			}
		}
		peers[prefix] = simplify(peer)
	}
	return peers
}

// wantedPeers are those of all sessions, with as many keys as fit.
func wantedPeers(tasks []destinationTask) destination.Peers {
	peers := destination.Peers{}
	for _, task := range tasks {
		filters := task.Filters
		if len(filters) == 0 {
			filters = []fivetuple.Filter{everything}
		}
		for address := range task.peers {
			prefix := netip.PrefixFrom(address, address.BitLen())
			peer := peers[prefix]
			peer.Filters = append(peer.Filters, filters...)
			peers[prefix] = peer
		}
	}
	addKeys(peers, tasks)
	for prefix, peer := range peers {
		peers[prefix] = simplify(peer)
	}
	return peers
}

func addKeys(peers destination.Peers, tasks []destinationTask) {
	for _, task := range tasks {
		if !task.Authenticated {
			continue
		}
		eachKey(task.Peers, func(prefix netip.Prefix, key wire.Key) {
			if peer, ok := peers[prefix]; ok && len(peer.Keys) < destination.KeysMax && !slices.Contains(peer.Keys, key) {
				peer.Keys = append(peer.Keys, key)
				peers[prefix] = peer
			}
		})
	}
}

// simplify sorts the filters, so that equal ones are found to be, and omits them if one
// matches everything.
func simplify(peer destination.Peer) destination.Peer {
	if slices.Contains(peer.Filters, everything) {
		peer.Filters = nil
		return peer
	}
	slices.SortFunc(peer.Filters, func(a, b fivetuple.Filter) int { return strings.Compare(a.String(), b.String()) })
	peer.Filters = slices.Compact(peer.Filters)
	return peer
}

func differentFilters(peers destination.Peers) int {
	all := map[fivetuple.Filter]bool{}
	for _, peer := range peers {
		for _, filter := range peer.Filters {
			all[filter] = true
		}
	}
	return len(all)
}
