package runner

import (
	"fmt"
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
	untagged map[netip.Prefix]time.Duration                      // when marks of a peer last needed no tag
	selected map[netip.Prefix]map[fivetuple.Filter]time.Duration // when a filter was last one of a peer's
	// limits say which keys do not fit, by session.
	limits map[string]string
}

// peers returns those of the tasks, for the program. Times are of the monotonic clock.
func (t *peerTable) peers(tasks []destinationTask, now time.Duration) destination.Peers {
	if local := tasks[0].local; local != nil {
		return local.Peers
	}
	wanted, limits := wantedPeers(tasks)
	t.limits = limits
	peers := t.remember(wanted, now)
	if differentFilters(peers) > destination.FiltersMax { // what is wanted now comes first
		return wanted
	}
	return peers
}

// remember returns the peers with what else still counts.
func (t *peerTable) remember(wanted destination.Peers, now time.Duration) destination.Peers {
	if t.untagged == nil {
		t.untagged, t.selected = map[netip.Prefix]time.Duration{}, map[netip.Prefix]map[fivetuple.Filter]time.Duration{}
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
		} else if last, ok := t.untagged[prefix]; ok && now-last < strictAfter {
			peer.Keys = nil
		}
		last := t.selected[prefix]
		if last == nil {
			last = map[fivetuple.Filter]time.Duration{}
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
			if now-seen >= strictAfter {
				delete(last, filter)
			} else {
				peer.Filters = append(peer.Filters, filter)
			}
		}
		peers[prefix] = simplify(peer)
	}
	return peers
}

// wantedPeers are those of all sessions, with as many keys as fit, and which do not.
func wantedPeers(tasks []destinationTask) (peers destination.Peers, limits map[string]string) {
	peers = destination.Peers{}
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
	limits = addKeys(peers, tasks)
	for prefix, peer := range peers {
		peers[prefix] = simplify(peer)
	}
	return peers, limits
}

// addKeys adds the keys of the first sessions, by one of which a source writes its marks if
// its sessions share an interface. It returns what others should know.
func addKeys(peers destination.Peers, tasks []destinationTask) (limits map[string]string) {
	limits = map[string]string{}
	for _, task := range tasks {
		if !task.Authenticated {
			continue
		}
		eachKey(task.Peers, func(prefix netip.Prefix, key wire.Key) {
			peer, ok := peers[prefix]
			switch {
			case !ok || slices.Contains(peer.Keys, key):
			case len(peer.Keys) < destination.KeysMax:
				peer.Keys = append(peer.Keys, key)
				peers[prefix] = peer
			default:
				limits[task.Session] = fmt.Sprintf("%d other sessions have %s as a source, and no more keys of a peer fit: its marks are read only if it marks for one of these on the same interface",
					destination.KeysMax, task.peers[prefix.Addr()])
			}
		})
	}
	return limits
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
