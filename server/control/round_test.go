package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"pillion.dev/server/event"
	"pillion.dev/server/store"
	"pillion.dev/session"
)

// fleet is a control with any number of agents that apply what they are assigned.
type fleet struct {
	*Control
	t     testing.TB
	tasks sync.WaitGroup
	now   time.Time
	mu    sync.Mutex
	// applied is what the agents have applied.
	applied map[string]session.Assignment
	asked   int
}

func (f *fleet) Ask(_ context.Context, name string, text []byte) ([]byte, error) {
	var r session.Request
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied[name] = *r.Apply
	f.asked++
	return json.Marshal(session.Reply{Tasks: tasksOf(*r.Apply)})
}

func (f *fleet) Pulse(string, []byte) error { return nil }
func (f *fleet) Disconnect(string)          {}
func (f *fleet) Event(event.Event)          {}
func (f *fleet) Change(event.Change)        {}

// tasksOf are the states of an assignment whose tasks run.
func tasksOf(a session.Assignment) (tasks []session.TaskState) {
	for _, d := range a.Destinations {
		tasks = append(tasks, session.TaskState{Session: d.Session, Role: roleDestination, Running: true})
	}
	for _, s := range a.Sources {
		tasks = append(tasks, session.TaskState{Session: s.Session, Role: roleSource, Running: true, Counters: map[string]uint64{"marked": 7}})
	}
	return tasks
}

// groupOf is the number of agents with the same label group.
const groupOf = 20

func newFleet(t testing.TB, agents int) *fleet {
	f := &fleet{t: t, now: time.Now(), applied: map[string]session.Assignment{}}
	c, err := New(Options{Store: store.NewFiles(t.TempDir()), Bus: f, Events: f, Now: func() time.Time { return f.now }})
	if err != nil {
		t.Fatal(err)
	}
	f.Control = c
	for n := range agents {
		c.addAgent(enrolment{Name: nameOf(n), TokenLabels: map[string]string{"group": fmt.Sprint(n / groupOf)}})
	}
	f.report(agents)
	return f
}

func nameOf(n int) string { return fmt.Sprintf("host-%05d", n) }

// report lets the first agents report.
func (f *fleet) report(agents int) {
	f.t.Helper()
	for n := range agents {
		f.HandleState(nameOf(n), f.state(n))
	}
}

func (f *fleet) state(n int) []byte {
	f.t.Helper()
	f.mu.Lock()
	applied := f.applied[nameOf(n)]
	f.mu.Unlock()
	text, err := json.Marshal(session.State{
		Agent: nameOf(n), Instance: "1", Boot: nameOf(n), Time: f.now, Version: "1", Kernel: "6.1.0-38-amd64",
		Interfaces: []session.Interface{
			{Name: "lo", Up: true, Addresses: []string{"127.0.0.1/8", "::1/128"}},
			{Name: "eth0", MTU: 1500, Up: true, Addresses: []string{
				fmt.Sprintf("10.%d.%d.%d/8", n>>16, n>>8&255, n&255), fmt.Sprintf("2001:db8::%x/64", n+1), fmt.Sprintf("fe80::%x/64", n+1),
			}},
		},
		Capabilities: session.Capabilities(), Clock: session.Clock{Synchronised: true, MaxErrorNs: 100},
		Revision: applied.Revision, Tasks: tasksOf(applied),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return text
}

// step lets a second pass and runs a round.
func (f *fleet) step() {
	f.now = f.now.Add(time.Second)
	f.round(context.Background(), &f.tasks)
	f.tasks.Wait()
}

// groups creates sessions, each of the sources of some groups of agents to all agents of the group.
func (f *fleet) groups(sessions int) {
	f.t.Helper()
	for n := range sessions {
		selector := []string{fmt.Sprintf("group=%d", n)}
		if _, _, err := f.Create(context.Background(), session.Spec{Name: fmt.Sprintf("s%d", n), Sources: selector, Destinations: selector}, "test"); err != nil {
			f.t.Fatal(err)
		}
	}
}

// settleDown runs rounds until all sessions run.
func (f *fleet) settleDown(agents int) {
	f.t.Helper()
	for range 30 {
		f.step()
		f.report(agents)
		running := 0
		all := f.Sessions()
		for _, s := range all {
			if s.State == Running {
				running++
			}
		}
		if running == len(all) {
			f.step()
			return
		}
	}
	f.t.Fatal("not all sessions run")
}

// BenchmarkRound measures rounds of idle agents, and rounds after one agent changed its addresses, with the
// documents that these write. Sessions are of groups of agents, each with all others of the group.
func BenchmarkRound(b *testing.B) {
	for _, agents := range []int{2000, 10_000, 50_000} {
		for _, sessions := range []int{0, 100} {
			b.Run(fmt.Sprintf("agents=%d/sessions=%d", agents, sessions), func(b *testing.B) {
				benchmarkRound(b, agents, sessions)
			})
		}
	}
}

func benchmarkRound(b *testing.B, agents, sessions int) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f := newFleet(b, agents)
	f.groups(sessions)
	f.settleDown(agents)
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.Run("idle", func(b *testing.B) {
		for b.Loop() {
			f.step()
			b.StopTimer()
			f.alive()
			b.StartTimer()
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(agents)/1024, "KiB/agent")
	})
	b.Run("addresses", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			b.StopTimer()
			f.alive()
			f.HandleState(nameOf(0), f.with(0, fmt.Sprintf("192.168.%d.%d/24", n>>8&255, n&255)))
			b.StartTimer()
			f.step()
		}
	})
}

// TestRoundsAreIncremental: after any changes, rounds that computed only what these concern have led to
// what a round computes from scratch.
func TestRoundsAreIncremental(t *testing.T) {
	const agents = 3 * groupOf
	f := newFleet(t, agents)
	f.groups(2)
	if _, _, err := f.Create(context.Background(), session.Spec{Name: "star", Sources: []string{nameOf(0)}, Destinations: []string{"*"}}, "test"); err != nil {
		t.Fatal(err)
	}
	f.settleDown(agents)
	random := rand.New(rand.NewPCG(1, 2))
	change := map[string]func(n int) error{
		"addresses": func(n int) error {
			f.HandleState(nameOf(n), f.with(n, fmt.Sprintf("192.168.0.%d/24", random.IntN(4))))
			return nil
		},
		"label": func(n int) error {
			return f.SetLabels(nameOf(n), map[string]string{"group": fmt.Sprint(random.IntN(3))})
		},
		"silence": func(n int) error { f.agents[nameOf(n)].lastReport = f.now.Add(-time.Minute); return nil },
		"pause":   func(int) error { _, err := f.Pause("s0"); return err },
		"resume":  func(int) error { _, err := f.Resume("s0"); return ignore(err, ErrState) },
		"approve": func(n int) error { return f.Approve(nameOf(n), nil, []string{"10.0.0.0/8"}, nil) },
		"revoke":  func(n int) error { return f.Revoke(nameOf(n)) },
		"restart": func(n int) error {
			f.mu.Lock()
			delete(f.applied, nameOf(n))
			f.mu.Unlock()
			return nil
		},
	}
	names := slices.Sorted(maps.Keys(change))
	for round := range 60 {
		var done []string
		for range 1 + random.IntN(3) {
			name, n := names[random.IntN(len(names))], random.IntN(agents)
			if name == "revoke" && random.IntN(3) > 0 {
				continue
			}
			if err := change[name](n); err != nil {
				t.Fatal(name, err)
			}
			done = append(done, fmt.Sprint(name, " ", n))
			if random.IntN(2) == 0 {
				f.step()
			}
		}
		for range 12 { // leases and the grace of what stopped end
			f.step()
			f.report(agents)
		}
		f.step()
		before, asked := f.texts(), f.asked
		f.stale.sessions, f.stale.everyone, f.stale.addresses = true, true, true
		f.step()
		if after := f.texts(); !maps.Equal(before, after) || asked != f.asked {
			for name := range after {
				if before[name] != after[name] {
					t.Errorf("%s:\n%s\nfrom scratch:\n%s", name, before[name], after[name])
				}
			}
			t.Fatalf("round %d after %q: %d assignments sent", round, done, f.asked-asked)
		}
	}
}

// TestAgentsAfter: pages of agents have each agent once, by name.
func TestAgentsAfter(t *testing.T) {
	f := newFleet(t, 3*groupOf+1)
	for _, row := range []struct {
		label string
		want  int
	}{{"", 3*groupOf + 1}, {"group", 3*groupOf + 1}, {"group=1", groupOf}, {"group=9", 0}} {
		var names []string
		for more, after := true, ""; more; {
			var page []Agent
			page, more = f.AgentsAfter(after, row.label, 7)
			for _, a := range page {
				names = append(names, a.Name)
				after = a.Name
			}
		}
		if len(names) != row.want || !slices.IsSorted(names) || len(slices.Compact(names)) != row.want {
			t.Errorf("label %q: %v", row.label, names)
		}
	}
	if all, more := f.AgentsAfter("", "", 0); len(all) != 3*groupOf+1 || more {
		t.Errorf("without a limit: %d, more %v", len(all), more)
	}
}

func ignore(err, kind error) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}

// texts are the assignments of all agents and the states of all sessions.
func (f *fleet) texts() map[string]string {
	texts := map[string]string{}
	for name, a := range f.agents {
		texts[name] = fmt.Sprintf("%+v", a.sent)
	}
	for name, r := range f.sessions {
		texts[name] = r.state + ": " + r.reason
	}
	return texts
}

// alive lets all agents have reported just now.
func (f *fleet) alive() {
	for _, a := range f.agents {
		a.lastReport = f.now
	}
}

// with is the report of an agent with one more address.
func (f *fleet) with(n int, address string) []byte {
	f.t.Helper()
	var s session.State
	if err := json.Unmarshal(f.state(n), &s); err != nil {
		f.t.Fatal(err)
	}
	s.Interfaces = append(s.Interfaces, session.Interface{Name: "veth", Addresses: []string{address}})
	text, err := json.Marshal(s)
	if err != nil {
		f.t.Fatal(err)
	}
	return text
}
