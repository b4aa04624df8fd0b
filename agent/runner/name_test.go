package runner

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"pillion.dev/internal/netns"
	"pillion.dev/session"
)

// TestRenamedDevice: a rename changes the name that is shown, and nothing else: the programs stay,
// every marked packet is read, and no task fails, also of a session that names the interface.
func TestRenamedDevice(t *testing.T) {
	r := newRoad(t)
	from, to := newHost(t, r, r.from), newHost(t, r, r.to)
	named, automatic := task("named", false, time.Hour), task("automatic", false, time.Hour)
	automatic.Device = ""
	reading := session.Assignment{Revision: 1, Destinations: []session.DestinationTask{named, automatic}}
	marking := session.Assignment{Revision: 1, Sources: []session.SourceTask{{
		Session: "s", Peers: []session.Peer{{Agent: "b", Addresses: []string{destinationAddress}}},
		Modules: []string{"loss"}, Encoding: "udp", Family: "any", Lease: session.Duration(time.Minute),
	}}}
	in := func(h *host, f func() error) {
		t.Helper()
		if err := netns.Do(h.namespace, f); err != nil {
			t.Fatal(err)
		}
	}
	in(to, func() error { to.Apply(reading, nil); return nil })
	in(from, func() error {
		from.Apply(marking, &session.Pulse{Alive: map[string][]string{"s": {"b"}}})
		return nil
	})
	source, destination := from.sources["out"], to.destinations["in"]
	if source == nil || destination == nil || len(destination.subscribers) != 2 {
		t.Fatalf("%+v, %+v", from.States(), to.States())
	}
	probes := [2]any{source.probe, destination.probe}
	r.send(5)
	rename := func(h *host, before, after string) {
		t.Helper()
		in(h, func() error {
			link, err := netlink.LinkByName(before)
			if err == nil {
				err = netlink.LinkSetName(link, after)
			}
			if err != nil {
				return err
			}
			h.follow()
			for _, state := range h.States() {
				if !state.Running || state.Error != "" || state.Device != after {
					t.Errorf("renamed %s to %s: %+v", before, after, state)
				}
			}
			if len(h.States()) != len(h.assignment.Sources)+len(h.assignment.Destinations) {
				t.Errorf("renamed %s to %s: %+v", before, after, h.States())
			}
			return nil
		})
	}
	for _, step := range []struct {
		h             *host
		before, after string
	}{{from, "out", "wan0"}, {to, "in", "wan1"}, {to, "wan1", "wan2"}, {to, "wan2", "in"}, {from, "wan0", "out"}} {
		rename(step.h, step.before, step.after)
		r.send(5)
	}
	if from.sources["out"] != source || to.destinations["in"] != destination || probes != [2]any{source.probe, destination.probe} {
		t.Error("the programs were replaced")
	}
	tally, err := destination.probe.Tally()
	sent, err2 := source.probe.Tally()
	if err := errors.Join(err, err2); err != nil || tally.Packets != 30 || sent.Marked != 30 {
		t.Errorf("%d marked, %d read of 30: %v", sent.Marked, tally.Packets, err)
	}
}

// TestRekey: two devices may exchange their names, and one may take the name of a removed device.
func TestRekey(t *testing.T) {
	for _, row := range []struct {
		name    string
		running map[string]int
		names   map[int]string
		want    map[string]int
	}{
		{"unchanged", map[string]int{"a": 1}, map[int]string{1: "a"}, map[string]int{"a": 1}},
		{"exchanged", map[string]int{"a": 1, "b": 2}, map[int]string{1: "b", 2: "a"}, map[string]int{"a": 2, "b": 1}},
		{"no task", map[string]int{"a": 1}, map[int]string{2: "a"}, map[string]int{"a": 1}},
		{"name of one that is gone", map[string]int{"a": 1, "b": 2}, map[int]string{2: "a"}, map[string]int{"a": 2, "a (removed)": 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if rekey(row.running, row.names, func(index int) int { return index }); !maps.Equal(row.running, row.want) {
				t.Errorf("%v, want %v", row.running, row.want)
			}
		})
	}
}
