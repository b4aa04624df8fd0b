package runner

import (
	"bytes"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/session"
	"pillion.dev/wire"
)

// host is a runner in a namespace, whose monotonic clock can be advanced.
type host struct {
	*Runner
	t         *testing.T
	namespace string
	ahead     atomic.Int64
}

func newHost(t *testing.T, r *road, namespace string) *host {
	h := &host{Runner: New(Options{Sink: r.take, Log: slog.New(slog.DiscardHandler)}), t: t, namespace: namespace}
	h.Runner.now = func() moment {
		now := present()
		now.steady += time.Duration(h.ahead.Load())
		return now
	}
	t.Cleanup(func() {
		if err := netns.Do(namespace, h.Close); err != nil {
			t.Error(err)
		}
	})
	return h
}

// apply returns the state of the only task.
func (h *host) apply(a session.Assignment) (state session.TaskState) {
	h.t.Helper()
	if err := netns.Do(h.namespace, func() error {
		states := h.Apply(a, &session.Pulse{Alive: map[string][]string{"s": {"b"}}})
		if len(states) != 1 {
			return errors.New("not one task")
		}
		state = states[0]
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
	return state
}

// TestAuthenticationChanges: agents begin and cease to authenticate marks while packets flow,
// in an encoding whose packets are lost if a mark is rejected. The source hears of it before or
// after the destination; every packet arrives, and every marked one is counted once.
func TestAuthenticationChanges(t *testing.T) {
	r := newRoad(t)
	from, to := newHost(t, r, r.from), newHost(t, r, r.to)
	key := bytes.Repeat([]byte{7}, wire.KeyLength)
	source := func(tagged bool) session.TaskState {
		t.Helper()
		return from.apply(session.Assignment{Sources: []session.SourceTask{{
			Session: "s", Peers: []session.Peer{{Agent: "b", Addresses: []string{destinationAddress}, Key: key}}, Authenticated: tagged,
			Modules: []string{"delay", "loss"}, Encoding: "udp", Family: "any", Lease: session.Duration(time.Minute),
		}}})
	}
	last := session.TaskState{}
	destination := func(tagged bool) {
		t.Helper()
		read := task("s", false, time.Hour)
		read.Authenticated, read.Peers[0].Key = tagged, key
		if last = to.apply(session.Assignment{Destinations: []session.DestinationTask{read}}); last.Error != "" {
			t.Fatalf("destination: %+v", last)
		}
	}
	marked := uint64(0)
	send := func(when string, counted bool) {
		t.Helper()
		before := r.offered
		r.send(20)
		if counted {
			marked += r.offered - before
		}
		states := []session.TaskState{}
		if err := netns.Do(r.to, func() error { states = to.States(); return nil }); err != nil {
			t.Fatal(err)
		}
		if c := states[0].Counters; c["device_marked"] != marked || c["device_rejected"] != 0 {
			t.Errorf("%s: %d marked packets, want %d; %d rejected, %d of them as forged", when, c["device_marked"], marked, c["device_rejected"], c["device_forged"])
		}
	}
	runs := func(state session.TaskState) {
		t.Helper()
		if !state.Running {
			t.Errorf("source: %+v", state)
		}
	}
	destination(false)
	runs(source(false))
	send("without authentication", true)
	destination(true)
	send("the source does not know yet", true)
	runs(source(true))
	send("with authentication", true)
	to.ahead.Add(int64(strictAfter))
	destination(true)
	send("tags are required", true)

	if state := source(false); state.Running || state.Error != errAuthenticationChanges.Error() {
		t.Errorf("the source goes on at once: %+v", state)
	}
	send("the source waits", false)
	from.ahead.Add(int64(untaggedAfter) - int64(4*time.Second))
	if state := source(false); state.Running {
		t.Errorf("the source goes on too soon: %+v", state)
	}
	destination(false)
	from.ahead.Add(int64(4 * time.Second))
	runs(source(false))
	send("without authentication again", true)

	runs(source(true)) // this time the source hears of it first
	send("the destination does not know yet", true)
	destination(true)
	send("with authentication again", true)
	if err := netns.Do(r.to, func() error { to.Apply(session.Assignment{}, nil); return nil }); err != nil {
		t.Fatal(err)
	}
	r.holds("s", marked, false)
}
