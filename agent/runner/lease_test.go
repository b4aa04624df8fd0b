package runner

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/session"
)

// TestSourceRunsOnceItMarks: until the first heartbeat, and until paths are tested, a source is not reported to run,
// and says why.
func TestSourceRunsOnceItMarks(t *testing.T) {
	const nobody = "192.0.2.99" // on the road, but no host has it
	lease := &session.Pulse{Alive: map[string][]string{"s": {"b"}}}
	for _, row := range []struct {
		name, address string
		validate      bool
		lease         *session.Pulse
		waits         string // the only reason that it may state while it does not run
	}{
		{"lease with the assignment", destinationAddress, false, lease, ""},
		{"lease later", destinationAddress, false, nil, "marks no packets yet: the server has not said that a destination is ready"},
		{"paths that nobody answers on", nobody, true, lease, "marks no packets yet: paths are being validated"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRoad(t)
			source := New(Options{Sink: r.take, Log: slog.New(slog.DiscardHandler), ValidatePaths: row.validate})
			t.Cleanup(func() {
				if err := netns.Do(r.from, source.Close); err != nil {
					t.Error(err)
				}
			})
			marking := session.Assignment{Sources: []session.SourceTask{{
				Session: "s", Device: "out", Peers: []session.Peer{{Agent: "b", Addresses: []string{row.address}}},
				Modules: []string{"loss"}, Encoding: "udp-option", Family: "any", Lease: session.Duration(time.Minute),
			}}}
			var states []session.TaskState
			if err := netns.Do(r.from, func() error { states = source.Apply(marking, row.lease); return nil }); err != nil {
				t.Fatal(err)
			}
			if row.lease == nil {
				if len(states) != 1 || states[0].Running || states[0].Limit != row.waits {
					t.Fatalf("before the first heartbeat: %+v", states)
				}
				if err := netns.Do(r.from, func() error { source.Pulse(*lease); return nil }); err != nil {
					t.Fatal(err)
				}
				states = source.States()
			}
			for len(states) == 1 && !states[0].Running && strings.HasPrefix(states[0].Limit, row.waits) && row.validate && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
				states = source.States()
			}
			if len(states) != 1 || !states[0].Running || states[0].Error != "" || states[0].Counters[session.PathsPending] != 0 ||
				row.validate != (states[0].Counters[session.PathsUnanswered] != 0) {
				t.Errorf("%+v", states)
			}
		})
	}
}
