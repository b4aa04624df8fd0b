package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/server/authority"
	"pillion.dev/session"
	"pillion.dev/wire"
)

// certificate is one with a key of its own.
func certificate(serial string) authority.Certificate {
	return authority.Certificate{Serial: serial, Key: "key " + serial, Expires: time.Now().AddDate(1, 0, 0)}
}

func TestClaim(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1")
		for _, row := range []struct {
			name, agent string
			is          error
		}{
			{"taken", "h1", ErrExists},
			{"reserved", "server", ErrInvalid},
			{"empty", "", ErrInvalid},
			{"path", "../h1", ErrInvalid},
			{"subject", "h1.flows", ErrInvalid},
			{"upper case", "H1", ErrInvalid},
			{"good", "h2", nil},
		} {
			if _, err := b.control.Claim(row.agent, certificate("9"), authority.Grant{}); !errors.Is(err, row.is) {
				t.Errorf("%s: got %v, want %v", row.name, err, row.is)
			}
		}
		if err := b.control.DeleteAgent("h1"); !errors.Is(err, ErrState) {
			t.Errorf("delete an agent that is not revoked: %v", err)
		}
		if err := b.control.Revoke("h1"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.control.Claim("h1", certificate("2"), authority.Grant{}); !errors.Is(err, ErrExists) {
			t.Errorf("claim the name of a revoked agent: %v", err)
		}
		if err := b.control.DeleteAgent("h1"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.control.Claim("h1", certificate("2"), authority.Grant{}); err != nil {
			t.Error(err)
		}
	})
}

func TestStanding(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1")
		expect := func(what, name, serial string, is error) {
			t.Helper()
			if err := b.control.Standing(name, certificate(serial)); !errors.Is(err, is) {
				t.Errorf("%s: got %v, want %v", what, err, is)
			}
		}
		expect("who joined", "h1", "1", nil)
		expect("an unknown agent", "h2", "1", ErrNotFound)
		expect("another certificate", "h1", "0", ErrSuperseded)
		if err := b.control.Renewed("h1", certificate("2")); err != nil {
			t.Fatal(err)
		}
		expect("before the new one is used", "h1", "1", nil)
		expect("the new one", "h1", "2", nil)
		expect("the old one afterwards", "h1", "1", ErrSuperseded)
		b.stop()
		b.boot()
		expect("after a restart", "h1", "2", nil)
		expect("the old one after a restart", "h1", "1", ErrSuperseded)
		if err := b.control.Revoke("h1"); err != nil {
			t.Fatal(err)
		}
		expect("revoked", "h1", "2", ErrRevoked)
		if err := b.control.Renewed("h1", certificate("3")); !errors.Is(err, ErrRevoked) {
			t.Errorf("renew a revoked agent: %v", err)
		}
		if a, err := b.control.Agent("h1"); err != nil || a.State != Revoked {
			t.Errorf("%s, %v", a.State, err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.hosts["h1"].revoked {
			t.Error("it is still connected")
		}
	})
}

func TestAgentView(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1")
		if err := b.control.SetLabels("h1", map[string]string{"site": "z", "rack": "4"}); err != nil {
			t.Fatal(err)
		}
		a, err := b.control.Agent("h1")
		if err != nil || a.Labels["site"] != "z" || a.Labels["rack"] != "4" || a.State != Connected || a.Version != "1" || a.Clock.MaxErrorNs != 100 {
			t.Errorf("got %+v, %v", a, err)
		}
		for _, labels := range []map[string]string{{"a b": ""}, {"": "x"}, {"a": "x=y"}, {strings.Repeat("k", 64): ""}} {
			if err := b.control.SetLabels("h1", labels); !errors.Is(err, ErrInvalid) {
				t.Errorf("labels %v: %v", labels, err)
			}
		}
		if err := b.control.SetLabels("h9", nil); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		p, err := b.control.Peer("h1")
		if err != nil || len(p.Addresses) != 1 || p.Addresses[0] != "10.0.0.1" {
			t.Errorf("peer %+v, %v", p, err)
		}
		if all := b.control.Agents(); len(all) != 1 || all[0].Name != "h1" {
			t.Errorf("agents %+v", all)
		}
	})
}

func TestDescribe(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1")
		facts, err := b.control.Describe(context.Background(), "h1", []string{"eth0"})
		if want := map[string]string{"kernel": "6.1", "governor": "performance"}; err != nil || !maps.Equal(facts, want) {
			t.Errorf("facts are %v, %v, want %v", facts, err, want)
		}
		if _, err := b.control.Describe(context.Background(), "h9", nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("an unknown agent: %v", err)
		}
	})
}

func TestAsk(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1")
		reply, err := b.control.Ask(context.Background(), "h1", session.Request{Doctor: &session.Doctor{}})
		if err != nil || len(reply.Doctor) != 1 {
			t.Errorf("got %+v, %v", reply, err)
		}
		for _, row := range []struct {
			name, agent string
			request     session.Request
			is          error
		}{
			{"nothing", "h1", session.Request{}, ErrInvalid},
			{"tasks", "h1", session.Request{Apply: &session.Assignment{}}, ErrInvalid},
			{"an unknown agent", "h9", session.Request{Doctor: &session.Doctor{}}, ErrNotFound},
		} {
			if _, err := b.control.Ask(context.Background(), row.agent, row.request); !errors.Is(err, row.is) {
				t.Errorf("%s: got %v, want %v", row.name, err, row.is)
			}
		}
		b.on("h1", func(h *host) { h.connected = false })
		if _, err := b.control.Ask(context.Background(), "h1", session.Request{Trace: &session.TraceTask{}}); !errors.Is(err, errAway) {
			t.Errorf("ask an agent that is away: %v", err)
		}
	})
}

func TestEventsOncePerChange(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1")
		expect := func(what, kind string, n int) {
			t.Helper()
			b.pass(2 * time.Second)
			if got := b.eventCount(kind); got != n {
				t.Errorf("%s: %d events of kind %s, want %d", what, got, kind, n)
			}
		}
		expect("at first", "agent-connected", 1)
		b.on("h1", func(h *host) { h.clock.Synchronised = false })
		expect("the clock is unsynchronised", "clock-unsynchronised", 1)
		expect("it stays unsynchronised", "clock-unsynchronised", 1)
		b.on("h1", func(h *host) { h.clock.Synchronised = true })
		expect("it is synchronised", "clock-synchronised", 1)
		b.on("h1", func(h *host) { h.clock.Synchronised = false })
		expect("it is unsynchronised again", "clock-unsynchronised", 2)
		expectClock := func(level, text string) {
			t.Helper()
			if checks := b.control.Checks("h1"); len(checks) == 0 || checks[0].Level != level || !strings.Contains(checks[0].Found, text) {
				t.Errorf("%+v, want %s: %s", checks, level, text)
			}
		}
		expectClock("ok", "agree within 10s")
		if ahead := b.control.ClocksAhead("the server's"); len(ahead) != 1 || ahead[0].Abs() > clockApart {
			t.Errorf("clocks are ahead by %v", ahead)
		}
		b.on("h1", func(h *host) { h.ahead = -8 * time.Second })
		expect("the clock is 8 s behind", "clock-apart", 0)
		b.on("h1", func(h *host) { h.ahead = -25 * time.Second })
		expect("the clock is 25 s behind", "clock-apart", 1)
		expect("it stays behind", "clock-apart", 1)
		if ahead := b.control.ClocksAhead(""); len(ahead) != 1 || ahead[0] > -clockApart {
			t.Errorf("clocks are ahead by %v", ahead)
		}
		expectClock("error", "clock apart: the clock of h1 is 25s behind the server's clock: hosts whose clocks differ by more than 17 s")
		b.on("h1", func(h *host) { h.ahead = 8 * time.Second })
		expect("it is 8 s ahead", "clock-agrees", 0)
		b.on("h1", func(h *host) { h.ahead = 0 })
		expect("it agrees", "clock-agrees", 1)
		b.on("h1", func(h *host) { h.clock.Steps, h.clock.StepNs = 1, -3_200_000_000 })
		expect("the clock is set back", "clock-stepped", 1)
		expect("it is not set again", "clock-stepped", 1)
		if got := stepText("h1", -3200*time.Millisecond); !strings.HasPrefix(got, "the clock of h1 was set back by 3.2s:") {
			t.Errorf("the event says %q", got)
		}
		b.on("h1", func(h *host) { h.spool.Damaged, h.spool.DroppedBatches = 2, 2 })
		expect("two batches are lost by damage", "spool-damaged", 1)
		expect("they stay so", "spool-damaged", 1)
		expect("the spool was not full", "spool-dropped", 0)
		b.on("h1", func(h *host) { h.spool.DroppedBatches = 5 })
		expect("three batches", "spool-dropped", 1)
		b.on("h1", func(h *host) { h.spool.DroppedBatches = 11 })
		expect("six more at once", "spool-dropped", 1)
		b.pass(time.Minute)
		expect("six more", "spool-dropped", 2)
		b.on("h1", func(h *host) { h.spool.Rejected = 2 })
		expect("two rejected", "batch-rejected", 1)
		expect("no new ones", "batch-rejected", 1)
		b.on("h1", func(h *host) { h.spool.DiskError = "no space left on device" })
		expect("its disk is full", "spool-disk", 1)
		expect("it stays full", "spool-disk", 1)
		for _, row := range []struct{ thin, begun, ended int }{{2, 1, 0}, {64, 1, 0}, {1, 1, 1}, {2, 1, 1}, {-5, 1, 1}} {
			b.on("h1", func(h *host) { h.thin = row.thin })
			expect("it asks for fewer samples", "thinning", row.begun)
			expect("and for all again", "thinning-ended", row.ended)
		}
		b.on("h1", func(h *host) { h.connected = false })
		b.pass(10 * time.Second)
		expect("silence", "agent-lost", 1)
		b.on("h1", func(h *host) { h.connected = true })
		expect("back", "agent-connected", 2)
	})
}

// TestLossesWhileTheServerIsDown: an event reports batches that were dropped or rejected
// while no server ran, and none is repeated after a restart.
func TestLossesWhileTheServerIsDown(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1")
		for _, row := range []struct {
			name                       string
			change                     func(*host)
			dropped, rejected, damaged int
		}{
			{"none yet", func(*host) {}, 0, 0, 0},
			{"dropped", func(h *host) { h.spool.DroppedBatches = 3 }, 1, 0, 0},
			{"nothing new", func(*host) {}, 1, 0, 0},
			{"more of both", func(h *host) { h.spool.DroppedBatches, h.spool.Rejected = 4, 1 }, 2, 1, 0},
			{"the agent restarts", func(h *host) { h.instance, h.spool = "later", session.Spool{} }, 2, 1, 0},
			{"and drops", func(h *host) { h.instance, h.spool.DroppedBatches = "last", 9 }, 3, 1, 0},
			{"nothing more", func(*host) {}, 3, 1, 0},
			{"it restarts with damaged files", func(h *host) { h.instance, h.spool = "damaged", session.Spool{Damaged: 2, DroppedBatches: 2} }, 3, 1, 1},
			{"and as many are damaged again", func(h *host) { h.instance = "again" }, 3, 1, 2},
		} {
			b.stop()
			b.on("h1", row.change)
			b.boot()
			b.pass(5 * time.Second)
			for kind, want := range map[string]int{"spool-dropped": row.dropped, "batch-rejected": row.rejected, "spool-damaged": row.damaged} {
				if got := b.eventCount(kind); got != want {
					t.Errorf("%s: %d events of kind %s, want %d", row.name, got, kind, want)
				}
			}
		}
	})
}

func TestTwoAgentsWithOneName(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1")
		for i := range 40 {
			b.on("h1", func(h *host) { h.instance = fmt.Sprint("h1-", i%2) })
			b.pass(500 * time.Millisecond)
		}
		if got := b.eventCount("agent-duplicated"); got != 1 {
			t.Errorf("%d events", got)
		}
	})
}

func TestHostileStates(t *testing.T) {
	good := session.State{Agent: "h1", Instance: "x", Interfaces: []session.Interface{{Name: "lo", Addresses: []string{"127.0.0.1/8"}}}}
	for _, row := range []struct {
		name   string
		change func(*session.State)
		says   string
	}{
		{"good", func(*session.State) {}, ""},
		{"another's", func(s *session.State) { s.Agent = "h2" }, `it names agent "h2" but came from "h1"`},
		{"no instance", func(s *session.State) { s.Instance = "" }, "instance"},
		{"last revision", func(s *session.State) { s.Revision = 1<<64 - 1 }, "revision"},
		{"too long", func(s *session.State) { s.Version = strings.Repeat("x", session.StateMax) }, "bytes"},
	} {
		t.Run(row.name, func(t *testing.T) {
			state := good
			state.Interfaces = []session.Interface{good.Interfaces[0]}
			row.change(&state)
			text, err := json.Marshal(state)
			if err != nil {
				t.Fatal(err)
			}
			state, err = readState("h1", text)
			if len(state.Labels) > 0 {
				t.Errorf("labels %v", state.Labels)
			}
			if row.says == "" && err != nil || row.says != "" && (!errors.Is(err, errState) || !strings.Contains(err.Error(), row.says)) {
				t.Errorf("got %v, want %q", err, row.says)
			}
		})
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"agent":"h1","instance":"x","revision":3,"labels":{"a":"b"},"interfaces":[{"name":"e","addresses":["10.0.0.1/8"]}],"tasks":[{"session":"s","role":"source","running":true,"error":"e"}]}`))
	f.Add([]byte(`{"agent":"h1","instance":"x","time":"0000-01-01T00:00:00Z","tasks":null}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, text []byte) {
		state, err := readState("h1", text)
		if err == nil {
			global(state.Interfaces)
		}
		for _, task := range state.Tasks {
			if err == nil && len(task.Error) > session.TextMax+3 {
				t.Errorf("an error of %d bytes", len(task.Error))
			}
		}
		_, _ = readReply(text)
	})
}

// A destination whose agent does not read the marks of a session, since it is of an earlier
// version, gets no such marks, and the source says why, until the agent is updated.
func TestEarlierAgentGetsOtherMarks(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.on("h2", func(h *host) { h.capabilities = []string{"native", "udp", "delay", "loss"} })
		b.pass(2 * time.Second)
		b.create(web())
		s := b.state("web", Running)
		if limit := limitOf(s, "h1"); !strings.Contains(limit, "marks in native,udp only: the version of the agent on h2 supports no other of the encodings") {
			t.Errorf("limit %q", limit)
		}
		source := func() session.SourceTask {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.hosts["h1"].applied.Sources[0]
		}
		if task := source(); task.Encoding != "native,udp" {
			t.Errorf("%+v", task)
		}
		b.on("h2", func(h *host) { h.capabilities = session.Capabilities() })
		b.until("all encodings", func() bool { return source().Encoding == wire.DefaultEncodings().String() })
		s, _ = b.control.Session("web")
		if limit := limitOf(s, "h1"); limit != "" {
			t.Errorf("limit %q", limit)
		}
	})
}

// A pair is not measured if no encoding of the session is read at its destination.
func TestEarlierAgentIsRefused(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.on("h2", func(h *host) { h.capabilities = []string{"native", "udp"} })
		b.pass(2 * time.Second)
		spec := web()
		spec.Encoding, spec.Family = "udp-option", session.IPv4
		b.create(spec)
		s := b.state("web", Degraded)
		if !strings.Contains(s.Reason, "the agent on h2 does not support encoding udp-option") || b.marks("h1", "web", "h2") {
			t.Errorf("%+v", s)
		}
		b.on("h2", func(h *host) { h.capabilities = session.Capabilities() })
		b.state("web", Running)
	})
}

// An agent of an earlier version is not assigned a point that it cannot measure; the session
// runs without it and says why, until the agent is updated.
func TestEarlierAgentDoesNotSend(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.on("h1", func(h *host) {
			h.capabilities = slices.DeleteFunc(session.Capabilities(), func(c string) bool { return c == "send" })
		})
		b.pass(2 * time.Second)
		spec := web()
		spec.Points = []session.PointRequest{{Name: "send"}}
		b.create(spec)
		s := b.state("web", Running)
		if limit := limitOf(s, "h1"); limit != "does not measure send: the version of the agent does not support it" {
			t.Errorf("limit %q", limit)
		}
		tasks := func() int {
			b.mu.Lock()
			defer b.mu.Unlock()
			return len(b.hosts["h1"].applied.Points)
		}
		if n := tasks(); n != 0 {
			t.Errorf("%d tasks", n)
		}
		b.on("h1", func(h *host) { h.capabilities = session.Capabilities() })
		b.until("the task is assigned", func() bool { return tasks() == 1 })
		if limit := limitOf(b.state("web", Running), "h1"); limit != "" {
			t.Errorf("limit %q", limit)
		}
	})
}

func limitOf(s Session, agent string) string {
	for _, task := range s.Tasks {
		if task.Agent == agent && task.Role == roleSource {
			return task.Limit
		}
	}
	return ""
}

// TestAgentLimit: beyond the limit no agent is enrolled, which is counted, and the others are unaffected.
func TestAgentLimit(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		b.control.Options.Agents = 2
		if _, err := b.control.Claim("h3", certificate("3"), authority.Grant{}); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "limits.agents") {
			t.Errorf("a third agent: %v", err)
		}
		if agents, refused := b.control.Registered(); agents != 2 || refused != 1 {
			t.Errorf("%d agents, %d refused", agents, refused)
		}
		if err := b.control.Standing("h1", certificate("1")); err != nil {
			t.Error(err)
		}
	})
}
