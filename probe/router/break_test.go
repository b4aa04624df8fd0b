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
	sent     []uint64   // when each packet was, ns
	busy     []hogSpell // when the processor was kept from the packets
}

// held runs a flood whose packets wait on the second processor, which another keeps
// busy meanwhile.
func held(t *testing.T, r *rig, length time.Duration, keep func(start, end uint64) ([]hogSpell, error)) (f flow) {
	t.Helper()
	r.steer("in0", 1)
	r.listen("10.9.2.2:9")
	client := r.dial("10.9.2.2:9")
	profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}})
	finish := gather(t, profile)
	now, err := monotonic()
	if err != nil {
		t.Fatal(err)
	}
	start := now + uint64(20*time.Millisecond)
	end := start + uint64(length)
	kept := make(chan error, 1)
	go func() {
		var err error
		f.busy, err = keep(start, end)
		kept <- err
	}()
	f.sent, err = r.spray(0, client, start, end)
	if err := errors.Join(err, <-kept); err != nil {
		t.Fatal(err)
	}
	f.snapshot = settled(t, profile)
	f.breaks = finish(f.snapshot.Breaks.Count - f.snapshot.Breaks.Unsent)
	return f
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

// agrees fails the test unless the breaks are those spells in which packets waited:
// as many, as long, and of that cause.
func (f flow) agrees(t *testing.T, gap time.Duration, cause, task string) {
	t.Helper()
	if len(f.sent) == 0 {
		t.Fatal("nothing was sent")
	}
	// At both ends nobody knows whether a packet waited.
	first, last := f.sent[0]+uint64(5*time.Millisecond), f.sent[len(f.sent)-1]-uint64(5*time.Millisecond)
	spells := slices.DeleteFunc(joined(f.busy, gap, DefaultBreak+20*time.Microsecond), func(s hogSpell) bool {
		return s.begin < first || s.end > last
	})
	var breaks, inside []hogSpell
	var right int
	for _, b := range f.breaks {
		breaks = append(breaks, hogSpell{b.MonoNs, b.MonoNs + b.LastNs})
		if b.MonoNs < first || b.MonoNs+b.LastNs > last {
			continue
		}
		inside = append(inside, breaks[len(breaks)-1])
		if b.Cause == cause && b.Task == task && b.CPU == 1 && b.Depth > 0 {
			right++
		}
	}
	var short []uint64
	for _, s := range spells {
		covered := within(s.begin, s.end, breaks)
		short = append(short, s.end-s.begin-covered)
	}
	slices.Sort(short)
	if len(short) < 5 {
		t.Fatalf("the processor was kept busy %d times, too few to judge", len(short))
	}
	median := time.Duration(short[len(short)/2])
	t.Logf("%d spells, %d breaks, %d of them right; median error %v, most %v", len(spells), len(inside), right, median, time.Duration(short[len(short)-1]))
	if d := len(spells) - len(inside); d*d > max(4, len(spells)*len(spells)/100) {
		t.Errorf("%d breaks, want %d", len(inside), len(spells))
	}
	if right*10 < 9*len(inside) {
		t.Errorf("%d of %d breaks are told as %s %s", right, len(inside), cause, task)
	}
	if median > 50*time.Microsecond {
		t.Errorf("half of the breaks are told more than %v too short", median)
	}
	var covered, total uint64
	for _, b := range inside {
		covered += within(b.begin, b.end, f.busy)
		total += b.end - b.begin
	}
	if covered*10 < total*9 {
		t.Errorf("breaks of %v, and %v of that it was busy", time.Duration(total), time.Duration(covered))
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
	f := held(t, r, 200*time.Millisecond, func(start, end uint64) ([]hogSpell, error) { return hog(1, start, end) })
	f.agrees(t, 60*time.Microsecond, "scheduled", hogName)
	f.sums(t)
	emptied(t, f.snapshot)
}

// The oracle is a program that makes softirqs take their time, and notes when.
func TestBreaksAreThoseOfASoftirq(t *testing.T) {
	twoProcessors(t)
	r := build(t)
	begin, end := burner(t, 1)
	f := held(t, r, 200*time.Millisecond, func(uint64, uint64) ([]hogSpell, error) { return nil, begin() })
	f.busy = end()
	f.sums(t)
	emptied(t, f.snapshot)
	var right, wrong int
	for _, b := range f.breaks {
		took := within(b.MonoNs, b.MonoNs+b.LastNs, f.busy)
		if took < b.LastNs*6/10 {
			continue // another kept the processor
		}
		if b.Cause == "softirq" && b.SoftirqNs >= took && b.SoftirqNs <= took+uint64(50*time.Microsecond) {
			right++
		} else {
			wrong++
			t.Logf("%+v, softirqs took %d", b, took)
		}
	}
	t.Logf("%d breaks, %v; by softirq, as it noted itself: %d right, %d wrong", len(f.breaks), f.snapshot.Breaks.Causes, right, wrong)
	if right < 3 || wrong*10 > right {
		t.Errorf("%d breaks are told right, %d wrong", right, wrong)
	}
	f.covers(t)
}

// covers fails the test if spells in which packets must have waited are no breaks.
func (f flow) covers(t *testing.T) {
	t.Helper()
	var breaks []hogSpell
	for _, b := range f.breaks {
		breaks = append(breaks, hogSpell{b.MonoNs, b.MonoNs + b.LastNs})
	}
	var all, missed int
	for _, s := range f.busy {
		if s.begin < f.sent[0] || s.end > f.sent[len(f.sent)-1] || s.end-s.begin < uint64(2*DefaultBreak) {
			continue
		}
		all++
		if within(s.begin, s.end, breaks)*10 < (s.end-s.begin)*9 {
			missed++
		}
	}
	t.Logf("%d spells, %d of them without a break", all, missed)
	if missed*10 > all {
		t.Errorf("%d of %d spells are no breaks", missed, all)
	}
}

func TestNoBreakWhilePacketsWaitAtTheOutput(t *testing.T) {
	twoProcessors(t)
	r := build(t)
	r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "1mbit", "burst", "1600", "limit", "30000")
	begin, end := burner(t, 1)
	f := held(t, r, 100*time.Millisecond, func(uint64, uint64) ([]hogSpell, error) { return nil, begin() })
	f.busy = end()
	var waits int
	for _, s := range f.busy {
		if s.begin > f.sent[0] && s.end < f.sent[len(f.sent)-1] {
			waits++
		}
	}
	t.Logf("%d breaks, packets had to wait %d times", len(f.breaks), waits)
	// The first packets wait before one is at the output.
	if waits < 5 || len(f.breaks) > 1 {
		t.Errorf("packets had to wait %d times, %d breaks: %+v", waits, len(f.breaks), f.breaks)
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
