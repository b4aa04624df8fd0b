package runner

import (
	"log/slog"
	"maps"
	"testing"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/session"
)

func TestBaseline(t *testing.T) {
	before := baseline{"seen": 10, "marked": 4, "skipped_mtu": 0}
	for name, row := range map[string]struct{ now, want map[string]uint64 }{
		"grown":    {map[string]uint64{"seen": 15, "marked": 4, "skipped_mtu": 2}, map[string]uint64{"seen": 5, "marked": 0, "skipped_mtu": 2}},
		"new":      {map[string]uint64{"seen": 15, "marked": 5, "counted": 7}, map[string]uint64{"seen": 5, "marked": 1, "counted": 7}},
		"replaced": {map[string]uint64{"seen": 12, "marked": 3}, map[string]uint64{"seen": 12, "marked": 3}},
	} {
		b := maps.Clone(before)
		if b.subtract(row.now); !maps.Equal(row.now, row.want) {
			t.Errorf("%s: got %v, want %v", name, row.now, row.want)
		}
	}
	counters := map[string]uint64{"seen": 3}
	if baseline(nil).subtract(counters); counters["seen"] != 3 {
		t.Errorf("without a baseline: %v", counters)
	}
}

// TestCountersOfALaterSession: what an interface counted before a session began is not in the counters of its tasks.
func TestCountersOfALaterSession(t *testing.T) {
	r := newRoad(t)
	sources, destinations := New(Options{Sink: r.take, Log: slog.New(slog.DiscardHandler)}), New(Options{Sink: r.take, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		for runner, place := range map[*Runner]string{sources: r.from, destinations: r.to} {
			if err := netns.Do(place, runner.Close); err != nil {
				t.Error(err)
			}
		}
	})
	counters := map[string]map[string]uint64{} // by role and session
	apply := func(names ...string) {
		t.Helper()
		var source, destination session.Assignment
		alive := map[string][]string{}
		for _, name := range names {
			source.Sources = append(source.Sources, session.SourceTask{
				Session: name, Peers: []session.Peer{{Agent: "b", Addresses: []string{destinationAddress}}},
				Modules: []string{"delay", "loss"}, Encoding: "udp", Family: "any", Lease: session.Duration(time.Minute),
			})
			destination.Destinations = append(destination.Destinations, task(name, false, time.Hour))
			alive[name] = []string{"b"}
		}
		do := func(place string, runner *Runner, assignment session.Assignment) {
			if err := netns.Do(place, func() error {
				for _, state := range runner.Apply(assignment, &session.Pulse{Alive: alive}) {
					if state.Error != "" {
						t.Errorf("%+v", state)
					}
					counters[state.Role+" "+state.Session] = state.Counters
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		do(r.to, destinations, destination)
		do(r.from, sources, source)
	}
	apply("first")
	r.send(100)
	apply("first", "later")
	for _, key := range []string{"source later", "destination later"} {
		for _, name := range []string{"marked", "device_marked"} {
			if n := counters[key][name]; n != 0 {
				t.Errorf("%s begins with %s=%d", key, name, n)
			}
		}
	}
	r.send(40)
	apply("first", "later", "last")
	for key, want := range map[string]uint64{"first": 140, "later": 40, "last": 0} {
		if n := counters["source "+key]["marked"]; n != want {
			t.Errorf("%s: marked=%d, want %d", key, n, want)
		}
		if n := counters["destination "+key]["device_marked"]; n != want {
			t.Errorf("%s: device_marked=%d, want %d", key, n, want)
		}
	}
}
