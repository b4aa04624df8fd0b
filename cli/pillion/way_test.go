package pillion

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
)

// soundWay is a way without any fault, whose forward direction a session measures.
func soundWay() *way {
	host := func(name, peer string) end {
		return end{
			Agent: &pillionv1.Agent{Name: name, State: "connected", Version: "v1", Kernel: "6.1.0", Clock: &pillionv1.Clock{Synchronised: true, MaxErrorNs: 30_000}},
			checks: []*pillionv1.Check{
				{Name: "kernel", Level: "ok", Found: "6.1.0"}, {Name: "disk", Level: "warning", Found: "little space", Advice: "remove files"},
				{Name: "peer " + peer + " 10.9.0.2", Level: "ok", Found: "via eth0, path MTU 1500 bytes"},
			},
		}
	}
	path := &pillionv1.Path{Address: "10.9.0.2", Reached: true, Hops: []*pillionv1.Hop{{Ttl: 1, Address: "10.0.0.254"}, {Ttl: 2}, {Ttl: 3, Address: "10.9.0.2", RttNs: 1_500_000}}}
	return &way{
		server: "v1", ends: [2]end{host("n", "s"), host("s", "n")},
		clock: &pillionv1.PairClock{Source: "n", Destination: "s", OffsetNs: 40_000, OffsetBoundNs: 20_000},
		there: direction{
			from: "n", to: "s", sent: 10, received: 9, lost: 1, period: time.Minute, paths: []*pillionv1.Path{path},
			session: &pillionv1.Session{
				Spec: &pillionv1.SessionSpec{Name: "web"}, State: "running", Pairs: []*pillionv1.Pair{{Source: "n", Destination: "s"}},
				Tasks: []*pillionv1.Task{
					{Agent: "n", Role: "source", Running: true, Counters: map[string]uint64{"marked": 10, "skipped_no_match": 4, "skipped_not_ip": 2}},
					{Agent: "s", Role: "destination", Running: true},
				},
			},
		},
		back: direction{from: "s", to: "n", plan: &pillionv1.PlanSessionResponse{Costs: []string{"20 bytes in each marked IPv4 packet (delay)", "one row"}}},
	}
}

// TestWay: each fault of a way is found, at its place, and nothing else fails.
func TestWay(t *testing.T) {
	for _, test := range []struct {
		name  string
		alter func(*way)
		// where, check, level, words of what is found
		want [4]string
	}{
		{"connected", func(*way) {}, [4]string{"n", "agent", "ok", "connected"}},
		{"host", func(*way) {}, [4]string{"n", "host", "ok", "1 check passed"}},
		{"warning of a host", func(*way) {}, [4]string{"s", "disk", "warning", "little space"}},
		{"away", func(w *way) {
			w.ends[1].State, w.ends[1].checks, w.ends[1].Seen = "away", nil, timestamppb.New(noon.Add(-time.Hour))
		}, [4]string{"s", "agent", "error", "away, last seen 1h ago"}},
		{"revoked", func(w *way) { w.ends[0].State = "revoked" }, [4]string{"n", "agent", "error", "revoked"}},
		{"aggregator", func(w *way) { w.ends[0].Site = "paris" }, [4]string{"n", "agent", "error", "site paris"}},
		{"older version", func(w *way) { w.ends[0].Version = "v0" }, [4]string{"n", "version", "warning", "v0, the server has v1"}},
		{"address of two", func(w *way) {
			w.ends[0].AddressConflicts = []*pillionv1.AddressConflict{{Address: "10.0.0.1", Agent: "x"}}
		}, [4]string{"n", "address 10.0.0.1", "warning", "agent x has it"}},
		{"full spool", func(w *way) { w.ends[0].Spool = &pillionv1.Spool{DroppedBatches: 1, DroppedRows: 7} }, [4]string{"n", "spool", "warning", "7 rows were dropped"}},
		{"clocks", func(*way) {}, [4]string{"n and s", "clocks", "ok", "offset of s from n"}},
		{"clock not synchronised", func(w *way) { w.ends[1].Clock.Synchronised = false }, [4]string{"n and s", "clocks", "warning", "not synchronised: s"}},
		{"clocks disagree", func(w *way) { w.clock.OffsetNs = 5e6 }, [4]string{"n and s", "clocks", "warning", "more than their daemons say"}},
		{"clocks far apart", func(w *way) { w.clock.OffsetNs = -18e9 }, [4]string{"n and s", "clocks", "error", "clock apart: "}},
		{"one direction", func(w *way) { w.clock.OffsetBoundNs = math.NaN() }, [4]string{"n and s", "clocks", "ok", "only one direction"}},
		{"route", func(*way) {}, [4]string{"n > s", "route 10.9.0.2", "ok", "path MTU 1500 bytes"}},
		{"session", func(*way) {}, [4]string{"n > s", "session", "ok", "web"}},
		{"degraded session", func(w *way) { w.there.session.State, w.there.session.Reason = "degraded", "s is away" }, [4]string{"n > s", "session", "warning", "s is away"}},
		{"session not possible", func(w *way) {
			w.back.plan.Problems = []*pillionv1.Problem{{Field: "sources", Message: "no BPF"}}
		}, [4]string{"s > n", "session", "error", "no BPF"}},
		{"session in part", func(w *way) { w.back.plan.Warnings = []string{"n has no IPv6"} }, [4]string{"s > n", "session", "warning", "n has no IPv6"}},
		{"marks", func(*way) {}, [4]string{"n > s", "marks", "ok", "9 marked packets arrived in 1m, 1 lost"}},
		{"marks not tested", func(*way) {}, [4]string{"s > n", "marks", "warning", "not tested"}},
		{"marks removed", func(w *way) { w.there.received = 0 }, [4]string{"n > s", "marks", "error", "10 marked packets left in 1m, and no mark was read: they are lost, or the marks are removed between n and s, by way of 10.0.0.254"}},
		{"path validation", func(w *way) {
			w.there.received, w.there.sent = 0, 0
			w.there.session.Tasks[0].Counters["paths_altered"] = 1
		}, [4]string{"n > s", "marks", "error", "path validation"}},
		{"no traffic", func(w *way) { w.there.received, w.there.sent = 0, 0 }, [4]string{"n > s", "marks", "warning", "skipped_no_match (4"}},
		{"refused by a host", func(w *way) {
			w.there.session.Tasks[1].Running, w.there.session.Tasks[1].Error = false, "refused by the policy"
		}, [4]string{"n > s", "destination", "error", "refused by the policy"}},
		{"limited", func(w *way) { w.there.session.Tasks[0].Limit = "clocks" }, [4]string{"n > s", "source", "warning", "n: clocks"}},
		{"no task", func(w *way) { w.there.session.Tasks = nil }, [4]string{"n > s", "source", "error", "not reported"}},
		{"room", func(*way) {}, [4]string{"n > s", "room", "ok", "had room"}},
		{"no room", func(w *way) { w.there.session.Tasks[0].Counters["skipped_mtu"] = 5 }, [4]string{"n > s", "room", "warning", "5 packets of 15"}},
		{"room of no session", func(*way) {}, [4]string{"s > n", "room", "ok", "20 bytes in each marked IPv4 packet (delay): "}},
		{"path", func(*way) {}, [4]string{"n > s", "path 10.9.0.2", "ok", "3 hops: 10.0.0.254, *, 10.9.0.2, RTT 1.5"}},
		{"path not reached", func(w *way) { w.there.paths[0].Reached = false }, [4]string{"n > s", "path 10.9.0.2", "warning", "not traced to the end"}},
		{"no trace", func(w *way) { w.back.untraced = errors.New("no route") }, [4]string{"s > n", "path", "warning", "no route"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := soundWay()
			test.alter(w)
			found := false
			for _, k := range w.findings(noon) {
				if k.where == test.want[0] && k.Name == test.want[1] && k.Level == test.want[2] && strings.Contains(k.Found, test.want[3]) {
					found = true
				} else if k.Level == levelError && k.Level != test.want[2] {
					t.Errorf("unexpected error: %s: %v", k.where, k.Check)
				}
				if (k.Level == levelOK) != (k.Advice == "") {
					t.Errorf("%s %s: level %s with advice %q", k.where, k.Name, k.Level, k.Advice)
				}
			}
			if !found {
				t.Errorf("no %q in %v", test.want, w.findings(noon))
			}
		})
	}
}

// TestWayOfNewSession: of a session that has just begun, no packets prove nothing, and packets that arrived do.
func TestWayOfNewSession(t *testing.T) {
	for _, row := range []struct {
		age            time.Duration
		sent, received uint64
		failed         bool // path validation
		level, want    string
	}{
		{2 * time.Second, 0, 0, false, "warning", "not judged yet: session web has run for only 2s, and counts are complete after 10s"},
		{12 * time.Second, 0, 0, false, "warning", "not judged yet: session web has run for only 12s"},
		{12 * time.Second, 5, 0, false, "warning", "not judged yet"},
		{12 * time.Second, 5, 4, false, "ok", "4 marked packets arrived in 2s"},
		{12 * time.Second, 0, 0, true, "error", "path validation found"},
		{25 * time.Second, 0, 0, false, "warning", "no packet was marked in 15s"},
		{25 * time.Second, 5, 0, false, "error", "5 marked packets left in 15s"},
		{time.Hour, 0, 0, false, "warning", "no packet was marked in 1m"},
	} {
		w := soundWay()
		d := &w.there
		d.session.Started = timestamppb.New(noon.Add(-row.age))
		d.running(d.session, noon.Add(-countTime-settleTime), countTime)
		d.sent, d.received = row.sent, row.received
		if row.failed {
			d.session.Tasks[0].Counters["paths_failed"] = 1
		}
		r := &report{}
		d.judgeMarks(r, noon)
		if len(r.found) != 1 || r.found[0].Level != row.level || !strings.HasPrefix(r.found[0].Found, row.want) {
			t.Errorf("after %v, %d sent and %d received: got %v", row.age, row.sent, row.received, r.found)
		}
		if strings.HasPrefix(row.want, "not judged") && !strings.Contains(r.found[0].Advice, "again in "+(20*time.Second-row.age).String()) {
			t.Errorf("after %v: advice %q", row.age, r.found[0].Advice)
		}
	}
}
