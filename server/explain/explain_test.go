package explain

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/measure/skew"
	"pillion.dev/server/control"
	clockpairs "pillion.dev/server/skew"
	"pillion.dev/session"
	"pillion.dev/wire/fivetuple"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var onlyTCP, _ = fivetuple.ParseFilter("proto=tcp")

// sound is a direction without any fault that a session measures.
func sound() *Evidence {
	host := func(name string) control.Agent {
		return control.Agent{Name: name, State: control.Connected, Version: "v1", Kernel: "6.1.0", Clock: session.Clock{Synchronised: true, MaxErrorNs: 30_000}}
	}
	source := session.TaskState{Session: "web", Role: "source", Running: true, Counters: map[string]uint64{"marked": 10, "skipped_no_match": 4, "skipped_not_ip": 2}}
	return &Evidence{
		Source: host("n"), Destination: host("s"), Version: "v1", Now: noon,
		Clock: &clockpairs.Pair{Source: "n", Destination: "s", Estimate: skew.Estimate{OffsetNs: 40_000, OffsetBoundNs: 20_000}},
		Session: &control.Session{
			Spec: session.Spec{Name: "web"}, State: control.Running, Started: noon.Add(-time.Hour), Pairs: []session.Pair{{Source: "n", Destination: "s"}},
			Tasks: []control.Task{{TaskState: source, Agent: "n"}, {TaskState: session.TaskState{Session: "web", Role: "destination", Running: true}, Agent: "s"}},
		},
		Counts: Counts{Sent: 10, Received: 9, Lost: 1, Period: time.Minute},
	}
}

// unmeasured has no session, but a plan of one.
func unmeasured(e *Evidence) *control.Plan {
	e.Session, e.Counts = nil, Counts{}
	e.Plan = &control.Plan{Costs: []string{"20 bytes in each marked IPv4 packet (delay)", "one row"}}
	return e.Plan
}

// reason adds one to the session.
func (e *Evidence) reason(agent, name, level, found string) {
	e.Session.Reasons = append(e.Session.Reasons, session.Reason{
		Check: session.Check{Name: name, Level: level, Found: found, Advice: "do it"}, Where: agent, Agent: agent, Session: "web",
	})
}

// TestReasons: each fault is found, at its place, and nothing else fails.
func TestReasons(t *testing.T) {
	for _, test := range []struct {
		name  string
		alter func(*Evidence)
		// where, check, level, words of what is found or advised
		want [4]string
	}{
		{"connected", func(*Evidence) {}, [4]string{"n", "agent", "ok", "connected"}},
		{"away", func(e *Evidence) { e.Destination.State, e.Destination.Seen = control.Away, noon.Add(-time.Hour) },
			[4]string{"s", "agent", "error", "away, last seen 1h ago"}},
		{"never seen", func(e *Evidence) { e.Destination.State = control.Away }, [4]string{"s", "agent", "error", "before the server started"}},
		{"unknown", func(e *Evidence) { e.Source = control.Agent{Name: "n"} }, [4]string{"n", "agent", "error", "no agent of this name"}},
		{"revoked", func(e *Evidence) { e.Source.State = control.Revoked }, [4]string{"n", "agent", "error", "revoked"}},
		{"aggregator", func(e *Evidence) { e.Source.Site = "paris" }, [4]string{"n", "agent", "error", "site paris"}},
		{"older version", func(e *Evidence) { e.Source.Version = "v0" }, [4]string{"n", "version", "warning", "v0, the server has v1"}},
		{"address of two", func(e *Evidence) {
			e.Source.AddressConflicts = []control.AddressConflict{{Address: "10.0.0.1", Agent: "x"}}
		},
			[4]string{"n", "address 10.0.0.1", "warning", "agent x has it"}},
		{"full spool", func(e *Evidence) { e.Source.Spool = session.Spool{DroppedBatches: 1, DroppedRows: 7} }, [4]string{"n", "spool", "warning", "7 rows were dropped"}},
		{"clocks", func(*Evidence) {}, [4]string{"n and s", "clocks", "ok", "offset of s from n"}},
		{"clock not synchronised", func(e *Evidence) { e.Destination.Clock.Synchronised = false }, [4]string{"n and s", "clocks", "warning", "not synchronised: s"}},
		{"clocks disagree", func(e *Evidence) { e.Clock.OffsetNs = 5e6 }, [4]string{"n and s", "clocks", "warning", "more than their daemons say"}},
		{"clocks far apart", func(e *Evidence) { e.Clock.OffsetNs = -18e9 }, [4]string{"n and s", "clocks", "error", "clock apart: "}},
		{"one direction", func(e *Evidence) { e.Clock.OffsetBoundNs = math.NaN() }, [4]string{"n and s", "clocks", "ok", "only one direction"}},
		{"session", func(*Evidence) {}, [4]string{"n > s", "session", "ok", "web measures it"}},
		{"degraded session", func(e *Evidence) { e.Session.State = control.Degraded }, [4]string{"n > s", "session", "warning", "degraded"}},
		{"paused session", func(e *Evidence) { e.Session.State = control.Paused }, [4]string{"n > s", "session", "warning", "web is paused: it marks no packets"}},
		{"ended session", func(e *Evidence) { e.Session.State, e.Session.Ends = control.Ended, noon }, [4]string{"n > s", "session", "warning", "web measured until 2026-03-01T12:00:00Z"}},
		{"scheduled session", func(e *Evidence) { e.Session.State, e.Session.NextStart = control.Scheduled, noon }, [4]string{"n > s", "session", "warning", "measures from 2026-03-01"}},
		{"session without a start", func(e *Evidence) { e.Session.State = control.Scheduled }, [4]string{"n > s", "session", "warning", "has not started yet"}},
		{"no session", func(e *Evidence) { unmeasured(e) }, [4]string{"n > s", "session", "warning", "pillion doctor n s --measure"}},
		{"session not possible", func(e *Evidence) { unmeasured(e).Problems = []session.Problem{{Field: "sources", Message: "no BPF"}} },
			[4]string{"n > s", "session", "error", "no BPF"}},
		{"session in part", func(e *Evidence) { unmeasured(e).Warnings = []string{"n has no IPv6"} }, [4]string{"n > s", "session", "warning", "n has no IPv6"}},
		{"marks", func(*Evidence) {}, [4]string{"n > s", "marks", "ok", "9 marked packets arrived in 1m, 1 lost"}},
		{"marks removed", func(e *Evidence) { e.Received = 0 },
			[4]string{"n > s", "marks", "error", "10 marked packets left in 1m, and no mark was read: they are lost, or the marks are removed between n and s"}},
		{"path validation", func(e *Evidence) { e.Received, e.Sent, e.Session.Tasks[0].Counters["paths_altered"] = 0, 0, 1 }, [4]string{"n > s", "marks", "error", "path validation"}},
		{"no traffic", func(e *Evidence) { e.Received, e.Sent = 0, 0 }, [4]string{"n > s", "marks", "warning", "skipped_no_match (4"}},
		{"filters", func(e *Evidence) {
			e.Received, e.Sent, e.Session.Spec.Filters = 0, 0, []fivetuple.Filter{onlyTCP}
		}, [4]string{"n > s", "marks", "warning", "selects (proto=tcp)"}},
		{"refused by a host", func(e *Evidence) { e.reason("s", "destination", "error", "refused by the policy") }, [4]string{"n > s", "destination", "error", "refused by the policy"}},
		{"limited", func(e *Evidence) { e.reason("n", "source", "warning", "source on n: clocks") }, [4]string{"n > s", "source", "warning", "n: clocks"}},
		{"limit of the other direction", func(e *Evidence) { e.reason("n", "destination", "error", "of the other direction") }, [4]string{"n > s", "marks", "ok", ""}},
		{"room", func(*Evidence) {}, [4]string{"n > s", "room", "ok", "had room"}},
		{"no room", func(e *Evidence) { e.Session.Tasks[0].Counters["skipped_mtu"] = 5 }, [4]string{"n > s", "room", "warning", "5 packets of 15"}},
		{"room of no session", func(e *Evidence) { unmeasured(e) }, [4]string{"n > s", "room", "ok", "20 bytes in each marked IPv4 packet (delay): "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := sound()
			test.alter(e)
			found := false
			for _, k := range e.Reasons() {
				if k.Where == test.want[0] && k.Name == test.want[1] && k.Level == test.want[2] && strings.Contains(k.Found+"\n"+k.Advice, test.want[3]) {
					found = true
				} else if k.Level == session.LevelError && k.Level != test.want[2] {
					t.Errorf("unexpected error: %+v", k)
				}
				if (k.Level == session.LevelOK) != (k.Advice == "") {
					t.Errorf("%s %s: level %s with advice %q", k.Where, k.Name, k.Level, k.Advice)
				}
			}
			if !found {
				t.Errorf("no %q in %+v", test.want, e.Reasons())
			}
		})
	}
}

// TestReasonIsGivenOnce: that an agent is away, and that packets have no room, is not said of the session's tasks or counters again.
func TestReasonIsGivenOnce(t *testing.T) {
	e := sound()
	e.Source.State = control.Away
	e.reason("n", "agent", session.LevelError, "n is away")
	e.Session.Tasks[0].Counters["skipped_mtu"] = 5
	e.reason("n", "source", session.LevelWarning, "source on n: no room: packets that exceed the MTU with a mark stay unmarked (skipped_mtu)")
	count := map[string]int{}
	for _, one := range e.Reasons() {
		for _, word := range []string{"away", "no room"} {
			if strings.Contains(one.Found, word) {
				count[word]++
			}
		}
		if one.Name == "room" {
			t.Errorf("besides the limit: %+v", one)
		}
	}
	if count["away"] != 1 || count["no room"] != 1 {
		t.Errorf("%v in %+v", count, e.Reasons())
	}
}

// TestBothDirectionsSayTheSameOfBothEnds: what concerns both ends does not differ, so that it can be shown once.
func TestBothDirectionsSayTheSameOfBothEnds(t *testing.T) {
	of := func(e *Evidence) (all []session.Reason) {
		e.Source.Clock.Synchronised, e.Destination.Clock.Synchronised = false, false
		for _, one := range e.Reasons() {
			if one.Name == "clocks" {
				all = append(all, one)
			}
		}
		return all
	}
	there, back := sound(), sound()
	back.Source, back.Destination = back.Destination, back.Source
	if a, b := of(there), of(back); len(a) != 1 || !slices.Equal(a, b) {
		t.Errorf("%+v, back %+v", a, b)
	}
}

// TestConcealed: a caller that sees no tasks, and not both agents, is not told that something is missing.
func TestConcealed(t *testing.T) {
	e := sound()
	e.Limited, e.Destination, e.Session.Tasks = true, control.Agent{Name: "s"}, nil
	for _, one := range e.Reasons() {
		if one.Level != session.LevelOK {
			t.Errorf("%+v", one)
		}
	}
}

// TestCountsOfNewSession: of a session that has just begun, no packets prove nothing, and packets that arrived do.
func TestCountsOfNewSession(t *testing.T) {
	for _, row := range []struct {
		age            time.Duration
		sent, received uint64
		failed         bool // path validation
		level, want    string
	}{
		{2 * time.Second, 0, 0, false, "warning", "not judged yet: session web has run for only 2s, and counts are complete after 10s"},
		{12 * time.Second, 0, 0, false, "warning", "not judged yet: session web has run for only 12s"},
		{12 * time.Second, 5, 0, false, "warning", "not judged yet"},
		{12 * time.Second, 5, 4, false, "ok", "4 marked packets arrived in 12s"},
		{12 * time.Second, 0, 0, true, "error", "path validation found"},
		{25 * time.Second, 0, 0, false, "warning", "no packet was marked in 15s"},
		{25 * time.Second, 5, 0, false, "error", "5 marked packets left in 15s"},
		{time.Hour, 0, 0, false, "warning", "no packet was marked in 1m"},
	} {
		e := sound()
		e.Session.Started = noon.Add(-row.age)
		from, until := e.Count(e.Session.Started, noon)
		if until.Sub(from) != e.Period || from.Before(e.Session.Started) || until.After(noon) {
			t.Errorf("after %v: from %v until %v, %+v", row.age, from, until, e.Counts)
		}
		e.Sent, e.Received = row.sent, row.received
		if row.failed {
			e.Session.Tasks[0].Counters["paths_failed"] = 1
		}
		r := &report{}
		e.judgeMarks(r)
		if len(r.found) != 1 || r.found[0].Level != row.level || !strings.HasPrefix(r.found[0].Found, row.want) {
			t.Errorf("after %v, %d sent and %d received: got %+v", row.age, row.sent, row.received, r.found)
		}
		if strings.HasPrefix(row.want, "not judged") && !strings.Contains(r.found[0].Advice, "again in "+(20*time.Second-row.age).String()) {
			t.Errorf("after %v: advice %q", row.age, r.found[0].Advice)
		}
	}
}
