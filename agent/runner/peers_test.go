package runner

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/probe/destination"
	"pillion.dev/session"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

func readingTask(t *testing.T, name string, texts ...string) destinationTask {
	t.Helper()
	task := destinationTask{peers: map[netip.Addr]string{netip.MustParseAddr("192.0.2.1"): "a"}}
	task.DestinationTask = session.DestinationTask{Session: name}
	for _, text := range texts {
		filter, err := fivetuple.ParseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		task.Filters = append(task.Filters, filter)
	}
	return task
}

// TestFiltersOfPeers: those of all sessions count, and for a while those of before.
func TestFiltersOfPeers(t *testing.T) {
	var table peerTable
	now := time.Duration(0)
	check := func(after time.Duration, want []string, tasks ...destinationTask) {
		t.Helper()
		now += after
		peers := table.peers(tasks, now)
		var got []string
		for _, filter := range peers[netip.MustParsePrefix("192.0.2.1/32")].Filters {
			got = append(got, filter.String())
		}
		if len(peers) != 1 || !slices.Equal(got, want) {
			t.Errorf("%v of %d peers, want %v", got, len(peers), want)
		}
	}
	tcp, udp, all := readingTask(t, "one", "proto=tcp"), readingTask(t, "two", "proto=udp", "proto=tcp"), readingTask(t, "three")
	check(0, []string{"proto=tcp"}, tcp)
	check(time.Second, []string{"proto=tcp", "proto=udp"}, tcp, udp)
	check(time.Second, nil, tcp, udp, all)
	check(strictAfter-1, nil, tcp)
	check(1, []string{"proto=tcp"}, tcp)
	check(time.Second, []string{"proto=tcp", "proto=udp"}, udp)
	check(time.Second, nil, all)
	many := []string{}
	for port := range destination.FiltersMax {
		many = append(many, fmt.Sprintf("dport=%d", 1000+port))
	}
	next := readingTask(t, "one", many...)
	peers := table.peers([]destinationTask{next}, now+strictAfter)
	filters := peers[netip.MustParsePrefix("192.0.2.1/32")].Filters
	check(strictAfter, slices.Sorted(maps.Keys(texts(filters))), next)
	if len(filters) != destination.FiltersMax {
		t.Errorf("%d filters", len(filters))
	}
}

func texts(filters []fivetuple.Filter) map[string]bool {
	all := map[string]bool{}
	for _, filter := range filters {
		all[filter.String()] = true
	}
	return all
}

// TestAuthenticationOfPeers: marks need a tag only when those without one can no longer be on
// their way, and at once none when sessions no longer ask for it.
func TestAuthenticationOfPeers(t *testing.T) {
	var table peerTable
	plain, tagged := readingTask(t, "one"), keyedTask(t, "one", 1)
	for _, row := range []struct {
		at   time.Duration
		task destinationTask
		keys int
	}{
		{0, plain, 0}, {time.Second, tagged, 0}, {strictAfter - 1, tagged, 0}, {strictAfter, tagged, 1}, {strictAfter + 1, tagged, 1},
		{strictAfter + 2, plain, 0}, {strictAfter + 3, tagged, 0}, {2*strictAfter + 2, tagged, 1},
	} {
		peers := table.peers([]destinationTask{row.task}, row.at)
		if n := len(peers[netip.MustParsePrefix("192.0.2.1/32")].Keys); n != row.keys {
			t.Errorf("at %v: %d keys, want %d", row.at, n, row.keys)
		}
	}
	if peers := new(peerTable).peers([]destinationTask{tagged}, 0); len(peers[netip.MustParsePrefix("192.0.2.1/32")].Keys) != 1 {
		t.Error("a peer that never marked without tags may do so")
	}
}

// keyedTask reads marks with a key.
func keyedTask(t *testing.T, name string, key byte) destinationTask {
	t.Helper()
	task := readingTask(t, name)
	task.Authenticated = true
	task.Peers = []session.Peer{{Agent: "a", Addresses: []string{"192.0.2.1"}, Key: bytes.Repeat([]byte{key}, wire.KeyLength)}}
	return task
}

// TestMoreSessionsThanKeys: the source marks with the key of its first session, which the
// destination always reads; sessions whose own key does not fit say so.
func TestMoreSessionsThanKeys(t *testing.T) {
	var reading []destinationTask
	var marking []sourceTask
	for i := range byte(destination.KeysMax + 1) {
		task := keyedTask(t, fmt.Sprintf("s%d", i), i+1)
		reading = append(reading, task)
		marking = append(marking, sourceTask{SourceTask: session.SourceTask{Session: task.Session, Authenticated: true, Peers: task.Peers}})
	}
	prefix := netip.MustParsePrefix("192.0.2.1/32")
	for ended := range reading { // one session after another ends, at the source first
		var table peerTable
		held := table.peers(reading[ended:], 0)[prefix].Keys
		for _, tasks := range [][]sourceTask{marking[ended:], marking[min(ended+1, len(marking)-1):]} {
			if key := pairKeys(tasks)[prefix]; !slices.Contains(held, key) {
				t.Errorf("%d sessions: marks with %x, reads %x", len(reading)-ended, key, held)
			}
		}
		limit := table.limits[reading[len(reading)-1].Session]
		if (limit != "") != (ended == 0) || ended == 0 && !strings.Contains(limit, "4 other sessions have a as a source") {
			t.Errorf("%d sessions: the last says %q", len(reading)-ended, limit)
		}
		if len(held) > destination.KeysMax || len(table.limits) > 1 {
			t.Errorf("%d keys, limits %v", len(held), table.limits)
		}
	}
}
