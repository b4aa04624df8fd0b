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
	"pillion.dev/probe/flow"
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
		peers, _ := table.peers(tasks, now)
		var got []string
		for _, rule := range peers[netip.MustParsePrefix("192.0.2.1/32")].Rules {
			got = append(got, rule.Filter.String())
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
	peers, _ := table.peers([]destinationTask{next}, now+strictAfter)
	filters := peers[netip.MustParsePrefix("192.0.2.1/32")].Rules
	check(strictAfter, slices.Sorted(maps.Keys(texts(filters))), next)
	if len(filters) != destination.FiltersMax {
		t.Errorf("%d filters", len(filters))
	}
}

// TestFieldsOfPeers: where sessions tell flows apart by different fields, their rules say by which.
func TestFieldsOfPeers(t *testing.T) {
	var table peerTable
	tcp, all := readingTask(t, "one", "proto=tcp"), readingTask(t, "two")
	all.Flow = fivetuple.Src | fivetuple.Dst
	rules := func(after time.Duration, tasks ...destinationTask) []destination.Rule {
		peers, _ := table.peers(tasks, after)
		return peers[netip.MustParsePrefix("192.0.2.1/32")].Rules
	}
	both := []destination.Rule{{Flow: flow.Src | flow.Dst}, {Filter: tcp.Filters[0], Flow: flow.All}}
	if got := rules(0, tcp, all); !slices.Equal(got, both) {
		t.Errorf("rules %v, want %v", got, both)
	}
	if got := rules(strictAfter, tcp); !slices.Equal(got, destination.Rules(tcp.Filters...)) {
		t.Errorf("rules of one session: %v", got)
	}
}

func texts(rules []destination.Rule) map[string]bool {
	all := map[string]bool{}
	for _, rule := range rules {
		all[rule.Filter.String()] = true
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
		peers, _ := table.peers([]destinationTask{row.task}, row.at)
		if n := len(peers[netip.MustParsePrefix("192.0.2.1/32")].Keys); n != row.keys {
			t.Errorf("at %v: %d keys, want %d", row.at, n, row.keys)
		}
	}
	if peers, _ := new(peerTable).peers([]destinationTask{tagged}, 0); len(peers[netip.MustParsePrefix("192.0.2.1/32")].Keys) != 1 {
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
		peers, _ := table.peers(reading[ended:], 0)
		held := peers[prefix].Keys
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

// TestPeersOfAWaypoint: marks of a peer are read for as long as a session asks for it, and for a while
// after that, whether or not another one writes into those of packets that go on.
func TestPeersOfAWaypoint(t *testing.T) {
	from := netip.MustParsePrefix("192.0.2.1/32")
	reading, waypoint := readingTask(t, "reading", "proto=tcp"), readingTask(t, "waypoint")
	waypoint.Amends = []string{"10.2.0.0/16", "10.1.0.0/16"}
	waypoint.amended = waypoint.Amended()
	if waypoint.wants(flow.Key{Src: from.Addr(), Dst: netip.MustParseAddr("10.1.0.1")}) {
		t.Error("a waypoint has rows")
	}
	var table peerTable
	for _, row := range []struct {
		name           string
		after          time.Duration
		tasks          []destinationTask
		reads, amended int
		unread         bool
	}{
		{"waypoint only", 0, []destinationTask{waypoint}, 0, 2, true},
		{"both", time.Second, []destinationTask{waypoint, reading}, 1, 2, false},
		{"no waypoint", time.Second, []destinationTask{reading}, 1, 0, false},
		{"waypoint, soon after", time.Second, []destinationTask{waypoint}, 1, 2, false},
		{"waypoint, later", strictAfter, []destinationTask{waypoint}, 0, 2, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			now := row.after
			if known, ok := table.remembered[origin{prefix: from}]; ok {
				for _, seen := range known.selected {
					now = max(now, seen+row.after)
				}
			}
			peers, _ := table.peers(row.tasks, now)
			if p := peers[from]; len(p.Rules) != row.reads || len(p.Amends) != row.amended || p.Unread != row.unread {
				t.Errorf("%+v", p)
			}
		})
	}
}

// untaggedOf returns the rules of the only peer, and which of them want no tag.
func untaggedOf(peers destination.Peers) (keys int, rules string) {
	peer := peers[netip.MustParsePrefix("192.0.2.1/32")]
	var texts []string
	for _, rule := range peer.Rules {
		text := rule.Filter.String()
		if rule.Untagged {
			text += " untagged"
		}
		texts = append(texts, text)
	}
	return len(peer.Keys), strings.Join(texts, ", ")
}

// TestAuthenticationByRule: of two sessions with the same source, one without authentication does not
// let marks without a tag count for the other, whatever changes.
func TestAuthenticationByRule(t *testing.T) {
	with := func(name string, texts ...string) destinationTask {
		task := readingTask(t, name, texts...)
		keyed := keyedTask(t, name, 1)
		task.Authenticated, task.Peers = true, keyed.Peers
		return task
	}
	tcp, udp, all := with("tcp", "proto=tcp"), readingTask(t, "udp", "proto=udp"), readingTask(t, "all")
	udpTagged, allTagged, port := with("udp", "proto=udp"), with("all"), readingTask(t, "port", "dport=80")
	type step struct {
		after time.Duration
		tasks []destinationTask
		keys  int
		rules string
	}
	for _, row := range []struct {
		name  string
		steps []step
	}{
		{"apart", []step{
			{0, []destinationTask{tcp}, 1, "proto=tcp"},
			{time.Second, []destinationTask{tcp, udp}, 1, "proto=tcp, proto=udp untagged"},
			{2 * strictAfter, []destinationTask{tcp, udp}, 1, "proto=tcp, proto=udp untagged"},
			{time.Second, []destinationTask{tcp}, 1, "proto=tcp, proto=udp untagged"}, // still on their way
			{strictAfter, []destinationTask{tcp}, 1, "proto=tcp"},
		}},
		{"one without authentication begins to have it", []step{
			{0, []destinationTask{tcp, udp}, 1, "proto=tcp, proto=udp untagged"},
			{time.Second, []destinationTask{tcp, udpTagged}, 1, "proto=tcp, proto=udp untagged"},
			{strictAfter - 1, []destinationTask{tcp, udpTagged}, 1, "proto=tcp, proto=udp"},
			{time.Second, []destinationTask{tcp, udp}, 1, "proto=tcp, proto=udp untagged"},
		}},
		{"with other filters", []step{
			{0, []destinationTask{tcp, udp}, 1, "proto=tcp, proto=udp untagged"},
			{time.Second, []destinationTask{tcp, allTagged}, 1, " untagged, proto=tcp, proto=udp untagged"},
			{strictAfter - 1, []destinationTask{tcp, allTagged}, 1, ""},
		}},
		{"one with authentication ends", []step{
			{0, []destinationTask{tcp, udp}, 1, "proto=tcp, proto=udp untagged"},
			{time.Second, []destinationTask{udp}, 0, "proto=tcp, proto=udp"},
			{time.Second, []destinationTask{allTagged, udp}, 1, " untagged, proto=tcp, proto=udp untagged"},
		}},
		{"rules of before demand no tags of those of now", []step{
			{0, []destinationTask{allTagged, udp}, 1, ""}, // a conflict: tags are required
			{time.Second, []destinationTask{tcp, udp}, 1, " untagged, proto=tcp, proto=udp untagged"},
			{strictAfter, []destinationTask{tcp, udp}, 1, "proto=tcp, proto=udp untagged"},
		}},
		{"the same packets", []step{
			{0, []destinationTask{tcp, all}, 1, " untagged, proto=tcp"},
			{strictAfter / 2, []destinationTask{tcp, all, port}, 1, " untagged, dport=80 untagged, proto=tcp"},
			{strictAfter, []destinationTask{allTagged, all}, 1, ""},
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var table peerTable
			now := time.Duration(0)
			for i, s := range row.steps {
				now += s.after
				peers, _ := table.peers(s.tasks, now)
				keys, rules := untaggedOf(peers)
				if keys != s.keys || rules != s.rules {
					t.Errorf("step %d: %d keys, rules %q; want %d, %q", i, keys, rules, s.keys, s.rules)
				}
			}
		})
	}
	var table peerTable
	table.peers([]destinationTask{tcp, port, udp}, 0)
	want := "marks of a need a tag in packets that session tcp measures as well: without authentication they are rejected"
	if table.limits["port"] != want || table.limits["udp"] != "" || table.limits["tcp"] != "" {
		t.Errorf("limits %v", table.limits)
	}
}

// TestKeysOfProbes: a source whose sessions differ has keys of all their peers, so that path probes to
// one without authentication are marked, too; they do not take the place of one that is needed.
func TestKeysOfProbes(t *testing.T) {
	source := func(authenticated bool, key byte, prefixes []string, addresses ...string) sourceTask {
		return sourceTask{SourceTask: session.SourceTask{Authenticated: authenticated,
			Peers: []session.Peer{{Agent: "b", Addresses: addresses, Prefixes: prefixes, Key: bytes.Repeat([]byte{key}, wire.KeyLength)}}}}
	}
	keys := pairKeys([]sourceTask{
		source(false, 1, nil, "192.0.2.1"), source(false, 2, nil, "10.1.0.1", "192.0.2.3"), source(true, 3, nil, "192.0.2.1", "192.0.2.2"),
		source(true, 4, []string{"10.1.0.0/16"}, "192.0.2.4"),
	})
	for text, want := range map[string]byte{"192.0.2.1/32": 3, "192.0.2.2/32": 3, "192.0.2.3/32": 2, "192.0.2.4/32": 4, "10.1.0.0/16": 4, "10.1.0.1/32": 0} {
		if key := keys[netip.MustParsePrefix(text)]; key[0] != want {
			t.Errorf("key of %s: %x, want that of session %d", text, key, want)
		}
	}
}
