package router

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func uintptrOf(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

// gather reads coffee breaks until the returned function is called, which gives them
// once as many as the sums count have come.
func gather(t *testing.T, profile *Router) func(count uint64) []Break {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	var lock sync.Mutex
	var all []Break
	arrived := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() {
		done <- profile.Breaks(ctx, func(b Break) error {
			lock.Lock()
			all = append(all, b)
			lock.Unlock()
			select {
			case arrived <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	t.Cleanup(cancel)
	return func(count uint64) []Break {
		t.Helper()
		for {
			lock.Lock()
			n := len(all)
			lock.Unlock()
			if uint64(n) >= count {
				break
			}
			select {
			case <-arrived:
			case <-ctx.Done():
				t.Fatalf("%d breaks of %d came", n, count)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		return all
	}
}

// flow has the measurements of a flood, and its truth.
type flow struct {
	snapshot Snapshot
	breaks   []Break
	sent     []uint64   // when a packet was sent, or could not be because of a full queue, ns
	busy     []hogSpell // when the processor was not available to the packets
}

// occupant keeps the second processor busy, and records when.
type occupant struct {
	attach func() // called when the profile is open
	// keep is called while packets are sent: it signals when it is ready, and receives when to be busy.
	keep func(ready *sync.WaitGroup, when <-chan [2]uint64) error
	busy func() []hogSpell // called afterwards
	// unrecorded: no causes of breaks are recorded.
	unrecorded bool
}

// held runs a flood whose packets wait on the second processor, which an occupant keeps
// busy.
func held(t *testing.T, r *rig, length time.Duration, o occupant) (f flow) {
	t.Helper()
	r.steer("in0", 1)
	server, client := r.listen("10.9.2.2:9"), r.dial("10.9.2.2:9")
	defer server.Close()
	defer client.Close()
	profile := r.profile(Options{Causes: !o.unrecorded, Match: Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}})
	finish := gather(t, profile)
	o.attach()
	// Both have their processors before the time is set.
	var ready sync.WaitGroup
	ready.Add(2)
	kept, when := make(chan error, 1), make(chan [2]uint64, 2)
	go func() { kept <- o.keep(&ready, when) }()
	go func() {
		ready.Wait()
		now, _ := monotonic()
		start := now + uint64(20*time.Millisecond)
		for range 2 {
			when <- [2]uint64{start, start + uint64(length)}
		}
	}()
	var err error
	f.sent, err = r.spray(0, client, &ready, when)
	if err := errors.Join(err, <-kept); err != nil {
		t.Fatal(err)
	}
	f.busy = o.busy()
	f.snapshot = settled(t, profile)
	r.closes(f.snapshot.Account)
	f.breaks = finish(f.snapshot.Breaks.Count - f.snapshot.Breaks.Unsent)
	if len(f.sent) == 0 {
		t.Fatal("nothing was sent")
	}
	return f
}

// kept is how often packets had to wait.
func (f flow) kept() (n int) {
	for _, s := range joined(f.busy, 30*time.Microsecond, DefaultBreak) {
		if len(f.sent) > 0 && s.begin > f.sent[0] && s.end < f.sent[len(f.sent)-1] {
			n++
		}
	}
	return n
}

// within is how much of a time lies in the others.
func within(begin, end uint64, others []hogSpell) (sum uint64) {
	for _, o := range others {
		if from, to := max(begin, o.begin), min(end, o.end); to > from {
			sum += to - from
		}
	}
	return sum
}

// reported fails the test unless all spells in which the processor was busy for this cause
// and packets waited are breaks, and every break that they explain has this cause. There
// may be other breaks, and on a busy machine no such spell at all: the long tests require
// some.
func (f flow) reported(t *testing.T, cause, task string) {
	t.Helper()
	var breaks []hogSpell
	explained := 0
	for _, b := range f.breaks {
		breaks = append(breaks, hogSpell{b.MonoNs, b.MonoNs + b.LastNs})
		noted := map[string]uint64{"scheduled": b.TaskNs, "softirq": b.SoftirqNs}[cause]
		took := within(b.MonoNs, b.MonoNs+b.LastNs, f.busy)
		if b.LastNs < uint64(DefaultBreak) {
			t.Errorf("%+v is too short", b)
		}
		if took < b.LastNs*6/10 || b.Truncated {
			continue
		}
		explained++
		if b.Cause != cause || task != "" && b.Task != task || b.CPU != 1 || b.Depth == 0 || noted < took*95/100 {
			t.Errorf("%+v, but %d ns were %s", b, took, cause)
		}
	}
	// Packets that arrived early enough waited until the processor was free, which a later one showed.
	last := f.sent[len(f.sent)-1] - uint64(2*time.Millisecond)
	waits, hidden := 0, f.snapshot.Account.Lost+f.snapshot.Account.InFlight+f.snapshot.Account.NoArrival
	for _, s := range f.busy {
		next, _ := slices.BinarySearch(f.sent, s.begin)
		if s.end > last || next == 0 || next+1 >= len(f.sent) {
			continue
		}
		// By then it is in the queue: the sender had returned from writing it, however long that took.
		from := max(f.sent[next]+uint64(20*time.Microsecond), f.sent[next+1])
		if from+uint64(DefaultBreak) > s.end {
			continue
		}
		waits++
		// A packet whose departure no hook saw counts as waiting at the output for a second.
		if covered := within(from, s.end, breaks); covered < s.end-from && hidden == 0 {
			t.Errorf("packets waited from %d to %d, for %d ns, and of that %d are a break", from, s.end, s.end-from, covered)
		}
	}
	t.Logf("%d breaks, %v, %d of them by %s; packets had to wait %d times", len(f.breaks), f.snapshot.Breaks.Causes, explained, cause, waits)
}

// sums fails the test unless the sums equal those of the single breaks.
func (f flow) sums(t *testing.T) {
	t.Helper()
	s := f.snapshot.Breaks
	var total, long, since uint64
	causes := map[string]uint64{}
	between := make([]uint64, len(s.Between))
	for _, b := range f.breaks {
		total += b.LastNs
		long = max(long, b.LastNs)
		since += b.Since
		causes[b.Cause]++
		between[min(b.Since, uint64(len(between)-1))]++
		if ago := time.Since(b.Start); ago < 0 || ago > time.Minute {
			t.Errorf("a break was %v ago", ago)
		}
	}
	if s.Unsent != 0 || s.Count != uint64(len(f.breaks)) || s.TotalNs != total || s.LongNs != long ||
		!maps.Equal(causes, s.Causes) || !slices.Equal(between, s.Between) {
		t.Errorf("sums %d, %d ns, longest %d, %v; want %d, %d, %d, %v",
			s.Count, s.TotalNs, s.LongNs, s.Causes, len(f.breaks), total, long, causes)
	}
	// IP also began with those whose departure no hook saw.
	a := f.snapshot.Account
	if since > a.Forwarded+a.Lost+a.InFlight {
		t.Errorf("%d packets between breaks, %d forwarded, %d lost, %d in flight", since, a.Forwarded, a.Lost, a.InFlight)
	}
}

// The oracle is a process with real-time priority that records when it has the processor. It
// displaces ksoftirqd, which processes packets when softirqs are deferred.
func breaksOfAHog(t *testing.T) flow {
	t.Helper()
	twoProcessors(t)
	r := build(t)
	r.slow()
	var spells []hogSpell
	f := held(t, r, 200*time.Millisecond, occupant{
		attach: func() {},
		keep: func(ready *sync.WaitGroup, when <-chan [2]uint64) (err error) {
			spells, err = hog(1, ready, when)
			return err
		},
		busy: func() []hogSpell { return spells },
	})
	f.reported(t, "scheduled", hogName)
	f.sums(t)
	emptied(t, f.snapshot)
	return f
}

func TestBreaksOfAHog(t *testing.T) { breaksOfAHog(t) }

// The oracle is a program that makes softirqs take their time, and notes when.
func breaksOfASoftirq(t *testing.T) flow {
	t.Helper()
	twoProcessors(t)
	r := build(t)
	f := held(t, r, 200*time.Millisecond, burner(t, 1))
	f.reported(t, "softirq", "")
	f.sums(t)
	emptied(t, f.snapshot)
	return f
}

func TestBreaksOfASoftirq(t *testing.T) { breaksOfASoftirq(t) }

// TestBreaksWithoutCauses: breaks are found without the hooks that only causes need, and
// say that theirs was not recorded.
func TestBreaksWithoutCauses(t *testing.T) {
	twoProcessors(t)
	r := build(t)
	o := burner(t, 1)
	o.unrecorded = true
	f := held(t, r, 200*time.Millisecond, o)
	f.sums(t)
	for _, b := range f.breaks {
		if b.Cause != CauseNotRecorded || b.Task != "" || b.TaskNs+b.SoftirqNs+b.IRQNs != 0 || b.Truncated {
			t.Errorf("%+v, but causes were not recorded", b)
		}
	}
	if f.kept() > 0 && len(f.breaks) == 0 {
		t.Errorf("packets had to wait %d times, no break", f.kept())
	}
}

// TestCauseHooksAttachOnDemand: the kernel counts the runs of the programs.
func TestCauseHooksAttachOnDemand(t *testing.T) {
	profile := build(t).profile(Options{Costs: true})
	switches := func() uint64 {
		t.Helper()
		stats, err := profile.collection.Programs[routerProgRouterSwitch].Stats()
		if err != nil {
			t.Fatal(err)
		}
		return stats.RunCount
	}
	record := func(on bool) {
		t.Helper()
		if err := profile.RecordCauses(on); err != nil {
			t.Fatal(err)
		}
	}
	if n := switches(); n != 0 {
		t.Errorf("%d switches of processes were seen without causes", n)
	}
	for range 2 {
		record(true)
		before := switches()
		await(t, "a switch of processes", func() bool { return switches() > before })
		record(false)
		if len(profile.causes) != 0 {
			t.Errorf("%d hooks stay", len(profile.causes))
		}
	}
}

func TestNoBreakWhilePacketsWaitAtTheOutput(t *testing.T) {
	twoProcessors(t)
	r := build(t)
	r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "1mbit", "burst", "1600", "limit", "30000")
	f := held(t, r, 100*time.Millisecond, burner(t, 1))
	t.Logf("%d breaks, packets had to wait %d times", len(f.breaks), f.kept())
	// The first packets wait before one is at the output.
	if f.kept() < 5 || len(f.breaks) > 1 {
		t.Errorf("packets had to wait %d times, %d breaks: %+v", f.kept(), len(f.breaks), f.breaks)
	}
}

func TestBreaksOfAnInterval(t *testing.T) {
	first, d := distributionOf(100_000), distributionOf(100_000, 200_000)
	before := Breaks{Causes: map[string]uint64{"irq": 1}, Lengths: first, Between: []uint64{1, 0}}
	after := Breaks{Causes: map[string]uint64{"irq": 1, "softirq": 1}, Lengths: d, Between: []uint64{1, 1}, Unsent: 3}
	got := after.Sub(before)
	if got.Count != 1 || got.TotalNs != 200_000 || got.LongNs != 200_000 || got.Unsent != 3 || got.Between[1] != 1 ||
		!maps.Equal(got.Causes, map[string]uint64{"softirq": 1}) {
		t.Errorf("%+v", got)
	}
}
