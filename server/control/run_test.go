package control

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/session"
)

func TestStartDestinationFirstStopSourceFirst(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		if s := b.create(web()); s.State != Starting {
			t.Errorf("initial state %s", s.State)
		}
		s := b.state("web", Running)
		if len(s.Pairs) != 1 || len(s.Tasks) != 2 || s.Started.IsZero() || !s.Ends.IsZero() {
			t.Errorf("got %+v", s)
		}
		if got := b.takeJournal(); got != "h2 web<h1\nh1 web>h2" {
			t.Errorf("started as\n%s", got)
		}
		b.until("h1 marks", func() bool { return b.marks("h1", "web", "h2") })
		b.pass(time.Minute)
		if got := b.takeJournal(); got != "" {
			t.Errorf("applied again:\n%s", got)
		}
		s, err := b.control.Stop("web")
		if err != nil || s.State != Stopping {
			t.Errorf("stop: %v, %s", err, s.State)
		}
		began := time.Now()
		s = b.state("web", Ended)
		if got := b.takeJournal(); got != "h1\nh2" {
			t.Errorf("stopped as\n%s", got)
		}
		if took := time.Since(began); took < defaultGrace {
			t.Errorf("the destination stopped reading after only %v", took)
		}
		if s.Reason != "stopped by operator" || b.eventCount("session-started") != 1 || b.eventCount("session-ended") != 1 {
			t.Errorf("reason %q, events %v", s.Reason, b.events)
		}
		if err := b.control.DeleteSession("web"); err != nil {
			t.Error(err)
		}
	})
}

func TestStartWaitsForDestination(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "h3")
		b.on("h2", func(h *host) { h.broken = "kernel too old" })
		spec := web()
		spec.Destinations = []string{"h2", "h3"}
		b.create(spec)
		s := b.state("web", Degraded)
		if !strings.Contains(s.Reason, "destination on h2: kernel too old") {
			t.Errorf("reason %q", s.Reason)
		}
		if len(s.Reasons) == 0 || s.Reasons[0].Agent != "h2" || s.Reasons[0].Name != roleDestination || s.Reasons[0].Level != session.LevelError || s.Reasons[0].Advice == "" {
			t.Errorf("reasons %+v", s.Reasons)
		}
		b.until("h1 marks to h3", func() bool { return b.marks("h1", "web", "h3") })
		b.on("h1", func(h *host) {
			if got := describe(h.applied); got != " web>h3" {
				t.Errorf("h1 is assigned%s while h2 does not read", got)
			}
		})
		if b.marks("h1", "web", "h2") || b.eventCount("task-failed") != 1 {
			t.Errorf("h1 marks to a broken destination, or %d events", b.eventCount("task-failed"))
		}
		b.on("h2", func(h *host) { h.broken = "" })
		b.state("web", Running)
		b.until("h1 marks to h2", func() bool { return b.marks("h1", "web", "h2") })
	})
}

// TestPathValidationIsReported once when it begins to fail on a source, and once when it
// passes again. The session runs meanwhile.
func TestPathValidationIsReported(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.create(web())
		b.state("web", Running)
		for n := range 2 {
			b.on("h1", func(h *host) { h.unanswered = 1 })
			b.pass(5 * time.Second)
			b.on("h1", func(h *host) { h.unanswered = 2 })
			b.pass(5 * time.Second)
			failed, passed := b.eventCount("path-validation-failed"), b.eventCount("path-validation-passed")
			if failed != n+1 || passed != n {
				t.Errorf("after failure %d: %d events of failures, %d of recoveries", n+1, failed, passed)
			}
			b.state("web", Running)
			b.on("h1", func(h *host) { h.unanswered = 0 })
			b.pass(5 * time.Second)
			if passed := b.eventCount("path-validation-passed"); passed != n+1 {
				t.Errorf("after recovery %d: %d events", n+1, passed)
			}
		}
	})
}

// TestFlowMismatchIsReported once for each pair and fields.
func TestFlowMismatchIsReported(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.create(web())
		b.state("web", Running)
		for n, fields := range []string{"src,dst", "src,dst,proto"} {
			b.on("h2", func(h *host) { h.otherFlows = map[string]string{"h1": fields, "stranger": fields} })
			b.pass(5 * time.Second)
			if events := b.eventCount("flow-mismatch"); events != n+1 {
				t.Errorf("%d events, want %d", events, n+1)
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, e := range b.events {
			if e.Kind == "flow-mismatch" && (e.Agent != "h1" || e.Peer != "h2" || e.Session != "web" || !strings.Contains(e.Message, "they number flows by src,dst")) {
				t.Errorf("event %+v", e)
			}
		}
	})
}

// TestCausesAreReported when they begin and when they end, in the words of the agent: in events, and by the
// checks of its host.
func TestCausesAreReported(t *testing.T) {
	for _, row := range []struct{ why, began, ended, message string }{
		{
			"hidden by first (12): packets on eth0 do not reach Pillion's program, which runs after it", "program-hidden", "program-reached",
			"the destination on h2, device , is ",
		},
		{"no room: packets that exceed the MTU with a mark stay unmarked (skipped_mtu)", "no-room", "room-again", "the destination on h2, device : "},
	} {
		t.Run(row.began, func(t *testing.T) {
			bed(t, func(b *testbed) {
				b.join("h1", "h2")
				b.create(web())
				b.state("web", Running)
				for n := range 2 {
					b.on("h2", func(h *host) { h.limit = "something else; " + row.why })
					b.pass(time.Minute)
					if events := b.eventCount(row.began); events != n+1 {
						t.Errorf("%d events, want %d", events, n+1)
					}
					if checks := b.control.Checks("h2"); len(checks) != 2 || checks[1].Name != "destination of web" || checks[1].Level != "warning" || checks[1].Found != "something else; "+row.why || checks[1].Advice == "" {
						t.Errorf("checks %+v", checks)
					}
					b.on("h2", func(h *host) { h.limit = "something else" })
					b.pass(time.Minute)
					if events := b.eventCount(row.ended); events != n+1 {
						t.Errorf("%d events, want %d", events, n+1)
					}
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				for _, e := range b.events {
					if e.Kind == row.began && (e.Agent != "h2" || e.Session != "web" || e.Message != row.message+row.why) {
						t.Errorf("event %+v", e)
					}
				}
			})
		})
	}
}

// TestUnansweredProbesAreReported: why a destination cannot prove its addresses is an event, the reason of the session,
// and part of the limit of a source with such an address.
func TestUnansweredProbesAreReported(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.create(web())
		b.state("web", Running)
		const why = `path probes over IPv4 are not answered: UDP port 25253 is in use by "nc" (process 7, user nobody)`
		b.on("h2", func(h *host) { h.silent = why })
		b.state("web", Degraded)
		b.on("h1", func(h *host) { h.unproven = 1 })
		b.pass(5 * time.Second)
		s := b.state("web", Degraded)
		if s.Reason != "destination on h2: "+why {
			t.Errorf("reason %q", s.Reason)
		}
		if len(s.Tasks) != 2 || s.Tasks[0].Agent != "h1" || s.Tasks[0].Limit != "destination on h2: "+why {
			t.Errorf("tasks %+v", s.Tasks)
		}
		b.mu.Lock()
		for _, e := range b.events {
			if (e.Kind == "probes-unanswered" || e.Kind == "address-unproven") && !strings.Contains(e.Message, why) {
				t.Errorf("event %+v", e)
			}
		}
		b.mu.Unlock()
		b.on("h2", func(h *host) { h.silent = "" })
		b.state("web", Running)
		for kind, want := range map[string]int{"probes-unanswered": 1, "address-unproven": 1, "probes-answered": 1} {
			if events := b.eventCount(kind); events != want {
				t.Errorf("%d events %s, want %d", events, kind, want)
			}
		}
	})
}

func TestLeaseIsWithdrawn(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "h3")
		spec := web()
		spec.Destinations = []string{"h2", "h3"}
		b.create(spec)
		b.state("web", Running)
		b.takeJournal()
		b.on("h2", func(h *host) { h.connected = false })
		b.until("h2 is not alive", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.hosts["h1"].pulse.Alive["web"]) == 1
		})
		s := b.state("web", Degraded)
		if s.Reason != "h2 is away" {
			t.Errorf("reason %q", s.Reason)
		}
		b.pass(20 * time.Second)
		if b.marks("h1", "web", "h2") || !b.marks("h1", "web", "h3") {
			t.Error("h1 marks for h2, or not for h3")
		}
		if b.eventCount("agent-lost") != 1 {
			t.Errorf("%d events of a lost agent", b.eventCount("agent-lost"))
		}
		b.on("h2", func(h *host) { h.connected = true })
		b.state("web", Running)
		b.until("h1 marks to h2 again", func() bool { return b.marks("h1", "web", "h2") })
		if got := b.takeJournal(); got != "" {
			t.Errorf("applied again without need:\n%s", got)
		}
		b.on("h3", func(h *host) { h.broken = "its program is missing" })
		b.until("only h2 is alive", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			alive := b.hosts["h1"].pulse.Alive["web"]
			return len(alive) == 1 && alive[0] == "h2"
		})
	})
}

func TestAgentRestarts(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.create(web())
		b.state("web", Running)
		b.takeJournal()
		for _, name := range []string{"h2", "h1"} {
			b.on(name, func(h *host) {
				h.instance, h.leased = name+"-2", map[link]time.Time{}
				h.applied, h.pinned = session.Assignment{}, h.applied
			})
			b.until(name+" is assigned its tasks again", func() bool { return strings.HasPrefix(b.takeJournal(), name+" web") })
			b.state("web", Running)
		}
		if b.eventCount("agent-duplicated") != 0 {
			t.Error("a restart is reported as a duplicate agent")
		}
	})
}

func TestServerRestarts(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.create(web())
		b.state("web", Running)
		b.until("h1 marks", func() bool { return b.marks("h1", "web", "h2") })
		b.takeJournal()
		b.stop()
		b.pass(3 * time.Second)
		b.boot()
		for range 200 {
			b.pass(100 * time.Millisecond)
			if !b.marks("h1", "web", "h2") {
				t.Fatal("the marking was interrupted")
			}
		}
		b.state("web", Running)
		if got := b.takeJournal(); got != "" {
			t.Errorf("applied again:\n%s", got)
		}
		if _, err := b.control.Stop("web"); err != nil {
			t.Error(err)
		}
		b.state("web", Ended)
		if got := b.takeJournal(); got != "h1\nh2" {
			t.Errorf("stopped as\n%s", got)
		}
	})
}

// A server that lost its data directory ends the tasks that agents still have.
func TestUnknownTasksEnd(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1")
		b.on("h1", func(h *host) {
			h.applied = session.Assignment{Revision: 1 << 50, Traces: []session.TraceTask{{Session: "old", Address: "10.0.0.9", Protocol: "udp"}}}
		})
		b.until("h1 has ended them", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.hosts["h1"].applied.Traces) == 0
		})
	})
}

func TestStopWhileSourceIsAway(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.create(web())
		b.state("web", Running)
		b.until("h1 marks", func() bool { return b.marks("h1", "web", "h2") })
		b.on("h1", func(h *host) { h.connected = false })
		b.takeJournal()
		if _, err := b.control.Stop("web"); err != nil {
			t.Fatal(err)
		}
		b.until("h2 stops", func() bool { return b.takeJournal() == "h2" })
		if b.marks("h1", "web", "h2") {
			t.Error("h2 stopped before the lease of h1 expired")
		}
		b.state("web", Ended)
		b.on("h1", func(h *host) { h.connected = true })
		b.until("h1 is assigned nothing when it is back", func() bool { return b.takeJournal() == "h1" })
	})
}

func TestJoinAndLeave(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		spec := session.Spec{Name: "mesh", Sources: []string{"site=a"}, Destinations: []string{"site=a"}, Trace: -1}
		b.create(spec)
		b.state("mesh", Running)
		b.takeJournal()
		b.join("h3")
		b.until("six pairs run", func() bool {
			s, _ := b.control.Session("mesh")
			return s.State == Running && len(s.Pairs) == 6
		})
		if err := b.control.SetLabels("h3", map[string]string{"site": "b"}); err != nil {
			t.Fatal(err)
		}
		b.until("two pairs run, and h3 has no tasks", func() bool {
			s, _ := b.control.Session("mesh")
			b.mu.Lock()
			defer b.mu.Unlock()
			h3 := b.hosts["h3"].applied
			return s.State == Running && len(s.Pairs) == 2 && len(h3.Sources)+len(h3.Destinations) == 0
		})
		if err := b.control.Revoke("h2"); err != nil {
			t.Fatal(err)
		}
		s := b.state("mesh", Degraded)
		if s.Reason != "no two agents match" || b.eventCount("agent-revoked") != 1 {
			t.Errorf("reason %q", s.Reason)
		}
		if err := b.control.DeleteAgent("h2"); !errors.Is(err, ErrState) {
			t.Errorf("delete while marks may arrive: %v", err)
		}
		b.until("h2 can be deleted", func() bool { return b.control.DeleteAgent("h2") == nil })
	})
}

func TestChangeWhileRunning(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "h3")
		b.create(web())
		b.state("web", Running)
		b.takeJournal()
		spec := web()
		spec.Sampling.Every = 10
		s, _, err := b.control.Change(context.Background(), spec, "test")
		if err != nil || s.Revision != 2 {
			t.Fatalf("revision %d, %v", s.Revision, err)
		}
		b.until("h1 samples, and no other agent is assigned anything", func() bool { return b.takeJournal() == "h1 web>h2/10" })
		b.pass(5 * time.Second)
		spec.Destinations = []string{"h3"}
		if _, _, err := b.control.Change(context.Background(), spec, "test"); err != nil {
			t.Fatal(err)
		}
		b.until("h2 has no tasks", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.hosts["h2"].applied.Destinations) == 0
		})
		b.state("web", Running)
		got := b.takeJournal()
		reads, marks := strings.Index(got, "h3 web<h1\n"), strings.Index(got, "h1 web>h3/10\n")
		if reads < 0 || marks < reads || !strings.HasSuffix(got, "\nh2") {
			t.Errorf("changed as\n%s", got)
		}
	})
}

func TestPauseAndResume(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.create(web())
		b.state("web", Running)
		b.takeJournal()
		if s, err := b.control.Pause("web"); err != nil || s.State != Paused {
			t.Fatalf("%s, %v", s.State, err)
		}
		b.until("both stopped", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return strings.Join(b.journal, "\n") == "h1\nh2"
		})
		b.pass(time.Minute)
		if s, err := b.control.Resume("web"); err != nil || s.State != Starting {
			t.Fatalf("%s, %v", s.State, err)
		}
		b.state("web", Running)
		if got := b.takeJournal(); got != "h1\nh2\nh2 web<h1\nh1 web>h2" {
			t.Errorf("resumed as\n%s", got)
		}
		if _, err := b.control.Resume("web"); !errors.Is(err, ErrState) {
			t.Errorf("resume a running session: %v", err)
		}
	})
}

func TestAgentRefuses(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.on("h2", func(h *host) { h.refuses = "no room" })
		b.create(web())
		s := b.state("web", Degraded)
		if !strings.Contains(s.Reason, "h2 did not accept its tasks: it answered: no room") {
			t.Errorf("reason %q", s.Reason)
		}
		b.pass(2 * time.Minute)
		b.mu.Lock()
		if n := b.hosts["h2"].asked; n < 4 || n > 12 {
			t.Errorf("asked %d times in two minutes", n)
		}
		b.mu.Unlock()
		b.on("h2", func(h *host) { h.refuses = "" })
		b.state("web", Running)
	})
}

// Whatever happens in whatever order, marks never arrive where they are not read: the
// testbed checks that.
func TestInvariantHoldsUnderRandomFaults(t *testing.T) {
	for seed := range uint64(4) {
		bed(t, func(b *testbed) {
			random := rand.New(rand.NewPCG(seed, 7))
			names := []string{"h1", "h2", "h3", "h4"}
			b.join(names...)
			spec := session.Spec{Name: "mesh", Sources: []string{"site=a"}, Destinations: []string{"site=a"}, Lease: session.Duration(3 * time.Second), Trace: -1}
			b.create(spec)
			for range 100 {
				name := names[random.IntN(len(names))]
				switch random.IntN(8) {
				case 0:
					b.on(name, func(h *host) { h.connected = !h.connected })
				case 1:
					site := map[string]string{"site": []string{"a", "b"}[random.IntN(2)]}
					if err := b.control.SetLabels(name, site); err != nil {
						t.Fatal(err)
					}
				case 2:
					_, _ = b.control.Pause("mesh")
				case 3, 4:
					_, _ = b.control.Resume("mesh")
				case 5:
					spec.Sampling.Every = random.Uint32N(5)
					if _, _, err := b.control.Change(context.Background(), spec, "test"); err != nil {
						t.Fatal(err)
					}
				case 6:
					b.on(name, func(h *host) { h.refuses = []string{"", "", "busy"}[random.IntN(3)] })
				case 7:
					if random.IntN(4) == 0 {
						b.stop()
						b.boot()
					}
				}
				b.pass(time.Duration(random.IntN(4000)) * time.Millisecond)
			}
			for _, name := range names {
				b.on(name, func(h *host) { h.connected, h.refuses = true, "" })
				if err := b.control.SetLabels(name, nil); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = b.control.Resume("mesh")
			b.until("all twelve pairs run", func() bool {
				s, _ := b.control.Session("mesh")
				return s.State == Running && len(s.Pairs) == 12
			})
		})
	}
}

// TestRouterOfSession: a router profiles from the start of the session until its last
// marked packets have arrived, is pulsed, and degrades the session if it fails.
func TestRouterOfSession(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "r1")
		spec := web()
		spec.Routers = []string{"r2"}
		if _, _, err := b.control.Create(t.Context(), spec, "me"); !errors.Is(err, ErrInvalid) {
			t.Fatalf("unknown router: %v", err)
		}
		spec.Routers = []string{"r1"}
		b.create(spec)
		s := b.state("web", Running)
		if len(s.Tasks) != 3 {
			t.Errorf("got %+v", s.Tasks)
		}
		b.until("r1 is pulsed", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.hosts["r1"].pulse.Revision != 0 && describe(b.hosts["r1"].applied) == " web@"
		})
		b.on("r1", func(h *host) { h.broken = "kernel too old" })
		if s = b.state("web", Degraded); !strings.Contains(s.Reason, "router on r1: kernel too old") {
			t.Errorf("reason %q", s.Reason)
		}
		b.on("r1", func(h *host) { h.broken = "" })
		b.state("web", Running)
		if _, err := b.control.Stop("web"); err != nil {
			t.Fatal(err)
		}
		b.state("web", Ended)
		b.until("r1 has stopped", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.hosts["r1"].applied.Points) == 0
		})
	})
}

// A source learns from its pulses where its marked packets have ceased to arrive.
func TestMissingMarksArePassedOn(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "h3")
		spec := web()
		spec.Destinations = []string{"h2", "h3"}
		b.create(spec)
		b.state("web", Running)
		missing := func() []string {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.hosts["h1"].pulse.Missing["web"]
		}
		if peers := missing(); len(peers) != 0 {
			t.Errorf("at first: %v", peers)
		}
		b.on("h2", func(h *host) { h.missing = []string{"h1", "h3"} })
		b.until("h1 hears about h2", func() bool { return slices.Equal(missing(), []string{"h2"}) })
		b.on("h2", func(h *host) { h.missing = nil })
		b.until("that is over", func() bool { return len(missing()) == 0 })
	})
}
