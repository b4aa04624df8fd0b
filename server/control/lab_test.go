package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pillion.dev/server/event"
	"pillion.dev/session"
)

var errAway = errors.New("agent is not connected")

// testbed is a Control with agents that do what they are told, in the time of a
// synctest bubble. It watches the promise of the whole: whenever a source may mark
// packets for a destination, that destination reads them.
type testbed struct {
	t       *testing.T
	dir     string
	control *Control
	stop    func()

	mu      sync.Mutex
	hosts   map[string]*host
	journal []string
	events  []event.Event
}

// host is an agent's process and its probes.
type host struct {
	name      string
	instance  string
	address   string
	labels    map[string]string
	connected bool
	applied   session.Assignment
	// pinned is what programs of a process before this one still read.
	pinned session.Assignment
	pulse  session.Pulse
	// leased is until when the source marks, by link.
	leased map[link]time.Time
	// broken says why destinations do not run, refuses why nothing is taken.
	broken, refuses string
	clock           session.Clock
	spool           session.Spool
	thin            int
	asked           int
	revoked         bool
}

func bed(t *testing.T, test func(*testbed)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &testbed{t: t, dir: dir, hosts: map[string]*host{}}
		b.boot()
		ctx, cancel := context.WithCancel(context.Background())
		var reports sync.WaitGroup
		reports.Go(func() { b.report(ctx) })
		test(b)
		cancel()
		reports.Wait()
		b.stop()
	})
}

// boot starts the server, again where it ran.
func (b *testbed) boot() {
	b.t.Helper()
	c, err := New(Options{Dir: b.dir, Bus: b, Events: b})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	b.mu.Lock()
	b.control = c
	b.mu.Unlock()
	b.stop = func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	}
}

// report lets agents report, twice a second, and watches the promise.
func (b *testbed) report(ctx context.Context) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		b.mu.Lock()
		states := map[string][]byte{}
		for name, h := range b.hosts {
			if h.connected {
				states[name] = h.state(b.t)
			}
		}
		control := b.control
		b.promise()
		b.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(states)) {
			control.HandleState(name, states[name])
		}
	}
}

func (h *host) state(t *testing.T) []byte {
	text, err := json.Marshal(session.State{
		Agent: h.name, Instance: h.instance, Time: time.Now(), Version: "1", Labels: h.labels,
		Interfaces: []session.Interface{{Name: "eth0", Up: true, Addresses: []string{h.address + "/24", "127.0.0.1/8", "fe80::1/64"}}},
		Clock:      h.clock, Spool: h.spool, Thin: h.thin, Revision: h.applied.Revision, Tasks: h.tasks(),
	})
	if err != nil {
		t.Error(err)
	}
	return text
}

func (h *host) tasks() []session.TaskState {
	var tasks []session.TaskState
	for _, d := range h.applied.Destinations {
		tasks = append(tasks, session.TaskState{Session: d.Session, Role: "destination", Running: h.broken == "", Error: h.broken})
	}
	for _, s := range h.applied.Sources {
		tasks = append(tasks, session.TaskState{Session: s.Session, Role: "source", Running: true})
	}
	for _, r := range h.applied.Points {
		tasks = append(tasks, session.TaskState{Session: r.Session, Role: r.Point, Running: h.broken == "", Error: h.broken})
	}
	return tasks
}

// promise fails the test if marks can come where nobody reads them. The caller
// holds the lock.
func (b *testbed) promise() {
	now := time.Now()
	for name, h := range b.hosts {
		for l, until := range h.leased {
			d := b.hosts[l.destination]
			if now.Before(until) && !reads(d.applied, l.session, name) && !reads(d.pinned, l.session, name) {
				b.t.Errorf("%s: %s may mark to %s for %s, which does not read\n%s",
					now.Format(time.TimeOnly), name, l.destination, l.session, strings.Join(b.journal, "\n"))
			}
		}
	}
}

func reads(a session.Assignment, name, source string) bool {
	return slices.ContainsFunc(a.Destinations, func(d session.DestinationTask) bool {
		return d.Session == name && hasPeer(d.Peers, source)
	})
}

// Ask is the Bus.
func (b *testbed) Ask(_ context.Context, name string, request []byte) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.hosts[name]
	if h == nil || !h.connected {
		return nil, errAway
	}
	var r session.Request
	if err := json.Unmarshal(request, &r); err != nil {
		b.t.Error(err)
	}
	if r.Apply == nil {
		return json.Marshal(session.Reply{Doctor: []session.Check{{Name: "clock", Level: "ok"}}})
	}
	h.asked++
	if h.refuses != "" {
		return json.Marshal(session.Reply{Error: h.refuses})
	}
	if r.Apply.Revision <= h.applied.Revision {
		b.t.Errorf("%s: revision %d after %d", name, r.Apply.Revision, h.applied.Revision)
	}
	h.applied, h.pinned = *r.Apply, session.Assignment{}
	for l, until := range h.leased {
		told := slices.ContainsFunc(h.applied.Sources, func(s session.SourceTask) bool {
			return s.Session == l.session && hasPeer(s.Peers, l.destination)
		})
		if last := time.Now().Add(time.Second); !told && until.After(last) {
			h.leased[l] = last // packets on the way carry marks a while longer
		}
	}
	b.journal = append(b.journal, name+describe(h.applied))
	b.promise()
	return json.Marshal(session.Reply{Tasks: h.tasks()})
}

// describe gives an assignment in short: what it reads and what it marks.
func describe(a session.Assignment) string {
	text := ""
	for _, d := range a.Destinations {
		text += " " + d.Session + "<" + peers(d.Peers)
	}
	for _, s := range a.Sources {
		text += " " + s.Session + ">" + peers(s.Peers)
		if s.Sampling.Every > 0 {
			text += fmt.Sprintf("/%d", s.Sampling.Every)
		}
	}
	for _, r := range a.Points {
		text += " " + r.Session + "@"
	}
	return text
}

func peers(list []session.Peer) string {
	var names []string
	for _, p := range list {
		names = append(names, p.Agent)
	}
	return strings.Join(names, ",")
}

// Pulse is the Bus.
func (b *testbed) Pulse(name string, pulse []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.hosts[name]
	if h == nil || !h.connected {
		return nil
	}
	h.pulse = session.Pulse{}
	if err := json.Unmarshal(pulse, &h.pulse); err != nil {
		b.t.Error(err)
	}
	if h.pulse.Revision != h.applied.Revision {
		return nil
	}
	for _, s := range h.applied.Sources {
		for _, peer := range s.Peers {
			if slices.Contains(h.pulse.Alive[s.Session], peer.Agent) {
				h.leased[link{s.Session, peer.Agent}] = time.Now().Add(time.Duration(s.Lease))
			}
		}
	}
	return nil
}

// Disconnect is the Bus.
func (b *testbed) Disconnect(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hosts[name].connected, b.hosts[name].revoked = false, true
}

// Event is the sink.
func (b *testbed) Event(e event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}

// Change is the sink.
func (b *testbed) Change(event.Change) {}

// join adds agents and connects them.
func (b *testbed) join(names ...string) {
	b.t.Helper()
	for _, name := range names {
		if err := b.control.Claim(name, "1", time.Now().AddDate(1, 0, 0)); err != nil {
			b.t.Fatal(err)
		}
		b.mu.Lock()
		b.hosts[name] = &host{
			name: name, instance: name + "-1", address: fmt.Sprintf("10.0.0.%d", len(b.hosts)+1), connected: true,
			leased: map[link]time.Time{}, clock: session.Clock{Synchronised: true, MaxErrorNs: 100}, labels: map[string]string{"site": "a"},
		}
		b.mu.Unlock()
	}
	for _, name := range names {
		b.until(name+" is connected", func() bool {
			a, err := b.control.Agent(name)
			return err == nil && a.State == Connected
		})
	}
}

// on changes a host.
func (b *testbed) on(name string, change func(*host)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b.hosts[name])
}

// until lets time pass until something is so.
func (b *testbed) until(what string, so func() bool) {
	b.t.Helper()
	for range 1200 {
		synctest.Wait()
		if so() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.t.Fatalf("never: %s\njournal:\n%s\nevents: %v", what, strings.Join(b.journal, "\n"), b.events)
}

// pass lets time pass.
func (b *testbed) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *testbed) state(name, state string) Session {
	b.t.Helper()
	var s Session
	b.until(name+" is "+state, func() bool {
		s, _ = b.control.Session(name)
		return s.State == state
	})
	return s
}

func (b *testbed) create(spec session.Spec) Session {
	b.t.Helper()
	s, _, err := b.control.Create(context.Background(), spec, "test")
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// takeJournal gives what agents applied since the last time.
func (b *testbed) takeJournal() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := strings.Join(b.journal, "\n")
	b.journal = nil
	return text
}

// told counts the events of a kind.
func (b *testbed) told(kind string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, e := range b.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (b *testbed) marks(source, name, destination string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.hosts[source].leased[link{name, destination}])
}

func web() session.Spec {
	return session.Spec{Name: "web", Sources: []string{"h1"}, Destinations: []string{"h2"}, Trace: -1}
}
