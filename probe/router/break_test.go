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

// flow is what was measured of a flood, and what was known of it.
type flow struct {
	snapshot Snapshot
	breaks   []Break
	sent     []uint64   // when a packet was, or could not be as too many waited, ns
	busy     []hogSpell // when the processor was kept from the packets
}

// held runs floods whose packets wait on the second processor, which another keeps busy
// meanwhile, until it did so in one of which all packets were seen. On a machine that
// has more to do the sender may be kept from it as well, and then nothing waits.
func held(t *testing.T, r *rig, length time.Duration, keep func(start, end uint64) error, busy func() []hogSpell) (f flow) {
	t.Helper()
	r.steer("in0", 1)
	server, client := r.listen("10.9.2.2:9"), r.dial("10.9.2.2:9")
	defer server.Close()
	defer client.Close()
	for range attempts {
		f = flow{}
		profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}})
		finish := gather(t, profile)
		now, err := monotonic()
		if err != nil {
			t.Fatal(err)
		}
		start := now + uint64(20*time.Millisecond)
		end := start + uint64(length)
		kept := make(chan error, 1)
		go func() { kept <- keep(start, end) }()
		f.sent, err = r.spray(0, client, start, end)
		if err := errors.Join(err, <-kept); err != nil {
			t.Fatal(err)
		}
		f.snapshot = settled(t, profile)
		f.breaks = finish(f.snapshot.Breaks.Count - f.snapshot.Breaks.Unsent)
		if err := profile.detach(); err != nil {
			t.Fatal(err)
		}
		f.busy = busy()
		if f.snapshot.Account.InFlight+f.snapshot.Account.Lost == 0 && f.kept() >= 10 && f.calm() {
			break
		}
	}
	closes(t, f.snapshot.Account)
	return f
}

// calm tells whether the sender had its processor all the time.
func (f flow) calm() bool {
	for i := 1; i < len(f.sent); i++ {
		if f.sent[i]-f.sent[i-1] > uint64(time.Millisecond) {
			return false
		}
	}
	return true
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

// agrees fails the test unless the breaks in which the processor was busy so are told
// right, and all times in which it was are breaks. There may be other breaks: the
// machine has more to do.
func (f flow) agrees(t *testing.T, cause, task string) {
	t.Helper()
	if len(f.sent) == 0 {
		t.Fatal("nothing was sent")
	}
	// At both ends nobody knows whether a packet waited.
	first, last := f.sent[0]+uint64(2*time.Millisecond), f.sent[len(f.sent)-1]-uint64(2*time.Millisecond)
	var breaks []hogSpell
	var right, wrong int
	var told, were, inside uint64
	for _, b := range f.breaks {
		breaks = append(breaks, hogSpell{b.MonoNs, b.MonoNs + b.LastNs})
		took := within(b.MonoNs, b.MonoNs+b.LastNs, f.busy)
		if took < b.LastNs*6/10 {
			continue
		}
		noted := map[string]uint64{"scheduled": b.TaskNs, "softirq": b.SoftirqNs}[cause]
		off := time.Duration(noted) - time.Duration(took)
		if b.Cause == cause && (task == "" || b.Task == task) && b.CPU == 1 && b.Depth > 0 && off.Abs() < 100*time.Microsecond {
			right++
		} else {
			wrong++
			t.Logf("%+v, but %d ns were %s", b, took, cause)
		}
		if b.MonoNs > first && b.MonoNs+b.LastNs < last {
			inside++
			told += b.LastNs
			were += took
		}
	}
	var spells, missed uint64
	for _, s := range joined(f.busy, 30*time.Microsecond, DefaultBreak+20*time.Microsecond) {
		if s.begin < first || s.end > last {
			continue
		}
		spells++
		if within(s.begin, s.end, breaks)*10 < (s.end-s.begin)*9 {
			missed++
		}
	}
	t.Logf("%d breaks, %v; by %s %d right, %d wrong; %d spells, %d of them missed; %d breaks of %v, %v by its own log",
		len(f.breaks), f.snapshot.Breaks.Causes, cause, right, wrong, spells, missed, inside, time.Duration(told), time.Duration(were))
	if right < 3 || wrong*10 > right {
		t.Errorf("%d breaks are told right, %d wrong; of all the first are %+v", right, wrong, f.breaks[:min(3, len(f.breaks))])
	}
	if missed*4 > spells || inside > spells*5/4+2 {
		t.Errorf("%d spells, %d of them no breaks; %d breaks", spells, missed, inside)
	}
	if were*4 < told*3 {
		t.Errorf("breaks last %v, %v by the log", time.Duration(told), time.Duration(were))
	}
}

// sums fails the test unless the sums are those of the single breaks.
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
	if since > f.snapshot.Account.Forwarded {
		t.Errorf("%d packets between breaks, %d forwarded", since, f.snapshot.Account.Forwarded)
	}
}

// The oracle is a process with real-time priority that notes when it has the processor.
// It keeps ksoftirqd from it, which goes on where softirqs gave up.
func TestBreaksAreThoseOfAHog(t *testing.T) {
	twoProcessors(t)
	r := build(t)
	r.slow()
	var spells []hogSpell
	f := held(t, r, 200*time.Millisecond, func(start, end uint64) (err error) {
		spells, err = hog(1, start, end)
		return err
	}, func() []hogSpell { return spells })
	f.agrees(t, "scheduled", hogName)
	f.sums(t)
	emptied(t, f.snapshot)
}

// The oracle is a program that makes softirqs take their time, and notes when.
func TestBreaksAreThoseOfASoftirq(t *testing.T) {
	twoProcessors(t)
	r := build(t)
	begin, end := burner(t, 1)
	f := held(t, r, 200*time.Millisecond, func(uint64, uint64) error { return begin() }, end)
	f.sums(t)
	emptied(t, f.snapshot)
	f.agrees(t, "softirq", "")
}

func TestNoBreakWhilePacketsWaitAtTheOutput(t *testing.T) {
	twoProcessors(t)
	r := build(t)
	r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "1mbit", "burst", "1600", "limit", "30000")
	begin, end := burner(t, 1)
	f := held(t, r, 100*time.Millisecond, func(uint64, uint64) error { return begin() }, end)
	t.Logf("%d breaks, packets had to wait %d times", len(f.breaks), f.kept())
	// The first packets wait before one is at the output.
	if f.kept() < 5 || len(f.breaks) > 1 {
		t.Errorf("packets had to wait %d times, %d breaks: %+v", f.kept(), len(f.breaks), f.breaks)
	}
}

func TestBreaksOfAnIntervalAreThoseSince(t *testing.T) {
	d := Distribution{Count: 2, SumNs: 300_000, MinNs: 100_000, MaxNs: 200_000, Bins: make([]uint64, linearBins)}
	d.Bins[100], d.Bins[200] = 1, 1
	first := d
	first.Count, first.SumNs, first.MaxNs = 1, 100_000, 100_000
	first.Bins = slices.Clone(d.Bins)
	first.Bins[200] = 0
	before := Breaks{Causes: map[string]uint64{"irq": 1}, Lengths: first, Between: []uint64{1, 0}}
	after := Breaks{Causes: map[string]uint64{"irq": 1, "softirq": 1}, Lengths: d, Between: []uint64{1, 1}, Unsent: 3}
	got := after.Sub(before)
	if got.Count != 1 || got.TotalNs != 200_000 || got.LongNs != 200_000 || got.Unsent != 3 || got.Between[1] != 1 ||
		!maps.Equal(got.Causes, map[string]uint64{"softirq": 1}) {
		t.Errorf("%+v", got)
	}
}
