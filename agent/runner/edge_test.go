package runner

import (
	"cmp"
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"pillion.dev/internal/netns"
	"pillion.dev/measure/module"
	"pillion.dev/probe/source"
	"pillion.dev/session"
)

// TestPacketsThatLeaveElsewhere: a source says which packets to hosts behind an edge leave by another
// interface than those to the edge.
func TestPacketsThatLeaveElsewhere(t *testing.T) {
	r := newRoad(t)
	err := netns.Do(r.from, func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = "other"
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "far"}); err != nil {
			return err
		}
		if err := address("far", "198.18.9.1"); err != nil {
			return err
		}
		return address("other", "198.18.8.1")
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, device, prefix, want string }{
		{"the same interface", "", netip.MustParsePrefix(destinationAddress + "/24").Masked().String(), ""},
		{"another one", "", "198.18.8.0/24", "packets to 198.18.8.0/24 leave by other, not by the interface to b, and are not marked: set the interface of this agent, in a session of their own if need be"},
		{"set", "other", "198.18.8.0/24", ""},
		{"one host", "", "198.18.8.7/32", "packets to 198.18.8.7/32 leave by other, not by the interface to b, and are not marked: set the interface of this agent, in a session of their own if need be"},
		{"no route", "", "198.18.200.0/24", "198.18.200.0/24 behind b: no route to 198.18.200.1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var devices map[string]deviceTasks
			if err := netns.Do(r.from, func() error {
				var faults []session.TaskState
				devices, faults = place(session.Assignment{Sources: []session.SourceTask{{
					Session: "s", Device: row.device, Transit: []string{"10.1.0.0/16"},
					Peers: []session.Peer{{Agent: "b", Addresses: []string{destinationAddress}, Prefixes: []string{row.prefix}}},
				}}})
				if len(faults) > 0 {
					return fmt.Errorf("%+v", faults)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if tasks := devices[cmp.Or(row.device, "out")].sources; len(tasks) != 1 || tasks[0].limit != row.want {
				t.Errorf("%+v, want %q", tasks, row.want)
			}
		})
	}
}

// TestOverlapLimit: only an edge says that packets which it forwards carry the mark of another source.
func TestOverlapLimit(t *testing.T) {
	tally := source.Tally{Skipped: map[string]uint64{"existing_option": 3}}
	edge := sourceTask{SourceTask: session.SourceTask{Transit: []string{"10.1.0.0/16"}}}
	const want = "3 packets of hosts behind this one carried the mark of another source, or destination options, already: they are not marked again; " +
		"where segments overlap, name this agent as a waypoint of the other session to divide its delay"
	if got := overlapLimit(edge, tally); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := overlapLimit(edge, source.Tally{}) + overlapLimit(sourceTask{}, tally); got != "" {
		t.Errorf("%q without a reason", got)
	}
}

// TestWaypointLabel: rows of segments name the waypoint where only one can have written the time.
func TestWaypointLabel(t *testing.T) {
	for _, row := range []struct {
		waypoints []string
		want      string
	}{{nil, ""}, {[]string{"r"}, "r"}, {[]string{"r", "s"}, ""}} {
		task := destinationTask{DestinationTask: session.DestinationTask{DividedBy: row.waypoints}}
		if labels := task.labels(module.Segments); len(labels) != 1 || labels[0].Text() != row.want {
			t.Errorf("%v: %v, want %q", row.waypoints, labels, row.want)
		}
	}
	if labels := new(destinationTask).labels(module.RoundTrip); len(labels) != 0 {
		t.Errorf("round trips: %v", labels)
	}
}
