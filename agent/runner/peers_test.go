package runner

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pillion.dev/probe/destination"
	"pillion.dev/session"
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
	now := time.Now()
	check := func(after time.Duration, want []string, tasks ...destinationTask) {
		t.Helper()
		now = now.Add(after)
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
	peers := table.peers([]destinationTask{next}, now.Add(strictAfter))
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
