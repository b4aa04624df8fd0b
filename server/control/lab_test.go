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

	"pillion.dev/server/authority"
	"pillion.dev/server/event"
	"pillion.dev/server/store"
	"pillion.dev/session"
)

var errAway = errors.New("agent is not connected")

// testbed is a Control with agents that carry out their assignments, in the time of a
// synctest bubble. It checks the main invariant: whenever a source may mark packets for
// a destination, that destination reads the marks.
type testbed struct {
	t       *testing.T
	dir     string
	control *Control
	stop    func()

	mu      sync.Mutex
	hosts   map[string]*host
	journal []string
	events  []event.Event
	// silent: no heartbeat but the first one of an assignment arrives.
	silent bool
}

// host is an agent's process and its probes.
type host struct {
	name      string
	instance  string
	address   string
	labels    map[string]string
	connected bool
	applied   session.Assignment
	// pinned is what pinned programs of a previous process still read.
	pinned session.Assignment
	pulse  session.Pulse
	// leased is when the source's lease expires, by link.
	leased map[link]time.Time
	// broken is why destinations do not run, refuses why assignments are rejected.
	broken, refuses string
	// interfaces beside the one with its address.
	interfaces int
	// missing are the peers whose marks its destinations miss.
	missing []string
	// capabilities of its agent; nil: of a version that states none.
	capabilities []string
	// unanswered paths of its sources.
	unanswered uint64
	// unproven addresses of their peers.
	unproven uint64
	// otherFlows are sources whose marks its destinations do not measure.
	otherFlows map[string]string
	// limit is what limits its destinations.
	limit string
	// silent is why its destinations answer no path probes.
	silent   string
	clock    session.Clock
	ahead    time.Duration // of the real time
	spool    session.Spool
	thin     int
	asked    int
	revoked  bool
	notice   string // what it was told that was refused
	stopping bool   // it says so in its reports
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

// boot starts the server, or restarts it.
func (b *testbed) boot() {
	b.t.Helper()
	c, err := New(Options{Store: store.NewFiles(b.dir), Bus: b, Events: b})
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

// report lets agents report twice a second, and checks the invariant.
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
		b.checkInvariant()
		b.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(states)) {
			control.HandleState(name, states[name])
		}
	}
}

func (h *host) state(t *testing.T) []byte {
	text, err := json.Marshal(session.State{
		Agent: h.name, Instance: h.instance, Time: time.Now().Add(h.ahead), Stopping: h.stopping, Version: "1", Labels: h.labels,
		Interfaces: append(make([]session.Interface, h.interfaces),
			session.Interface{Name: "eth0", Up: true, Addresses: []string{h.address + "/24", "127.0.0.1/8", "fe80::1/64"}}),
		Capabilities: h.capabilities, Clock: h.clock, Spool: h.spool, Thin: h.thin, Revision: h.applied.Revision, Tasks: h.tasks(),
	})
	if err != nil {
		t.Error(err)
	}
	return text
}

func (h *host) tasks() []session.TaskState {
	var tasks []session.TaskState
	for _, d := range h.applied.Destinations {
		tasks = append(tasks, session.TaskState{Session: d.Session, Role: "destination", Running: h.broken == "", Error: h.broken, Missing: h.missing, OtherFlows: h.otherFlows, Limit: h.limit, Unanswered: h.silent})
	}
	for _, s := range h.applied.Sources {
		tasks = append(tasks, session.TaskState{
			Session: s.Session, Role: "source", Running: true, Counters: map[string]uint64{session.PathsUnanswered: h.unanswered, session.AddressesUnproven: h.unproven},
		})
	}
	for _, r := range h.applied.Points {
		tasks = append(tasks, session.TaskState{Session: r.Session, Role: r.Point, Running: h.broken == "", Error: h.broken})
	}
	return tasks
}

// checkInvariant fails the test if marks can arrive where they are not read. The caller
// holds the lock.
func (b *testbed) checkInvariant() {
	now := time.Now()
	for name, h := range b.hosts {
		for l, until := range h.leased {
			d := b.hosts[l.peer]
			if now.Before(until) && !reads(d.applied, l.session, name) && !reads(d.pinned, l.session, name) {
				b.t.Errorf("%s: %s may mark to %s for %s, which does not read\n%s",
					now.Format(time.TimeOnly), name, l.peer, l.session, strings.Join(b.journal, "\n"))
			}
		}
	}
}

func reads(a session.Assignment, name, source string) bool {
	return slices.ContainsFunc(a.Destinations, func(d session.DestinationTask) bool {
		return d.Session == name && slices.ContainsFunc(d.Peers, func(p session.Peer) bool { return p.Agent == source })
	})
}

// Ask implements Bus.
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
		if r.Describe != nil {
			return json.Marshal(session.Reply{Facts: map[string]string{"kernel": "6.1", "governor": "performance", "evil": "\x1b[2J"}})
		}
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
		assigned := slices.ContainsFunc(h.applied.Sources, func(s session.SourceTask) bool {
			return s.Session == l.session && slices.ContainsFunc(s.Peers, func(p session.Peer) bool { return p.Agent == l.peer })
		})
		if last := time.Now().Add(time.Second); !assigned && until.After(last) {
			h.leased[l] = last // packets in transit still carry marks
		}
	}
	b.journal = append(b.journal, name+describe(h.applied))
	if r.Pulse != nil {
		h.beat(*r.Pulse)
	}
	b.checkInvariant()
	return json.Marshal(session.Reply{Tasks: h.tasks()})
}

// describe formats an assignment: what it reads and what it marks.
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

// Pulse implements Bus.
func (b *testbed) Pulse(name string, pulse []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.hosts[name]
	var got session.Pulse
	if err := json.Unmarshal(pulse, &got); err != nil {
		b.t.Error(err)
	}
	if h != nil && got.Notice != "" {
		h.notice = got.Notice
	}
	if h == nil || !h.connected {
		return nil
	}
	if !b.silent {
		h.beat(got)
	}
	return nil
}

// beat renews the leases of sources.
func (h *host) beat(pulse session.Pulse) {
	h.pulse = pulse
	if pulse.Revision != h.applied.Revision {
		return
	}
	for _, s := range h.applied.Sources {
		for _, peer := range s.Peers {
			if slices.Contains(pulse.Alive[s.Session], peer.Agent) {
				h.leased[link{s.Session, peer.Agent}] = time.Now().Add(time.Duration(s.Lease))
			}
		}
	}
}

// Disconnect implements Bus.
func (b *testbed) Disconnect(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hosts[name].connected, b.hosts[name].revoked = false, true
}

// Event implements event.Sink.
func (b *testbed) Event(e event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}

// Change implements event.Sink.
func (b *testbed) Change(event.Change) {}

// join adds agents and connects them.
func (b *testbed) join(names ...string) {
	b.t.Helper()
	for _, name := range names {
		if _, err := b.control.Claim(name, certificate("1"), authority.Grant{Labels: map[string]string{"site": "a"}}); err != nil {
			b.t.Fatal(err)
		}
		b.mu.Lock()
		b.hosts[name] = &host{
			name: name, instance: name + "-1", address: fmt.Sprintf("10.0.0.%d", len(b.hosts)+1), connected: true,
			capabilities: session.Capabilities(), leased: map[link]time.Time{}, clock: session.Clock{Synchronised: true, MaxErrorNs: 100}, labels: map[string]string{"site": "a"},
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

// until lets time pass until a condition holds.
func (b *testbed) until(what string, holds func() bool) {
	b.t.Helper()
	for range 1200 {
		synctest.Wait()
		if holds() {
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

// takeJournal returns what agents applied since the last call.
func (b *testbed) takeJournal() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := strings.Join(b.journal, "\n")
	b.journal = nil
	return text
}

// eventCount returns the number of events of a kind.
func (b *testbed) eventCount(kind string) int {
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
