package router

import (
	"context"
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// queueOf finds one side of an interface.
func queueOf(t testing.TB, s Snapshot, name string, input bool) Queue {
	t.Helper()
	for _, q := range s.Queues {
		if q.Interface.Name == name && q.Input == input {
			return q
		}
	}
	t.Fatalf("no queue of %s", name)
	return Queue{}
}

// emptied fails the test if anything is left in a queue in which nothing is.
func emptied(t testing.TB, s Snapshot) {
	t.Helper()
	if len(s.Queues) == 0 {
		t.Error("no queues")
	}
	for _, q := range s.Queues {
		if q.Depth != 0 || q.Arrivals != q.Departures {
			t.Errorf("%s, input %v: depth %d, %d came, %d left", q.Interface.Name, q.Input, q.Depth, q.Arrivals, q.Departures)
		}
		if q.IntegralNs != q.WaitedNs {
			t.Errorf("%s, input %v: integral of the depth %d, sum of waits %d", q.Interface.Name, q.Input, q.IntegralNs, q.WaitedNs)
		}
		var left, came uint64
		for i := range q.Sizes {
			left += q.Sizes[i]
			came += q.Came[i]
		}
		if left != q.Departures-q.Ended || came != left {
			t.Errorf("%s, input %v: %d left, %d in sizes, %d in what came", q.Interface.Name, q.Input, q.Departures-q.Ended, left, came)
		}
	}
}

// The oracle is the rate of a token bucket: packets that come at once leave it at equal
// distances, so that the k-th waits for k of them.
func TestQueueIsThatOfAKnownRate(t *testing.T) {
	const n, rate, frame, burst = 200, 8e6, 1014, 2000
	gap := float64(frame*8) / rate * 1e9
	r := build(t)
	r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "8mbit", "burst", "2000", "limit", "1000000")
	var begin time.Time
	var middle, s Snapshot
	for range attempts {
		s = whole(t, func() (s Snapshot) {
			profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP}})
			defer profile.detach()
			begin = time.Now()
			r.flood("10.9.2.2:9", n, frame-42)
			var err error
			if middle, err = profile.Snapshot(); err != nil {
				t.Fatal(err)
			}
			return settled(t, profile)
		})
		// On a machine that others keep busy the bucket's timer may be late.
		if late := time.Since(begin) - time.Duration(n*gap); late < 20*time.Millisecond {
			break
		}
	}
	emptied(t, s)
	q := queueOf(t, s, "in1", false)
	ours, kernel := q.Means()
	little := q.Little(time.Since(begin))
	t.Logf("most %d, kernel's %d; means %.2f, kernel's %.2f of %d; %+v", q.MaxDepth, q.KernelMax, ours, kernel, q.Compared, little)
	// The bucket lets the first pass.
	want := gap * n * (n - 1) / 2
	if got := float64(q.WaitedNs); math.Abs(got-want) > 0.05*want {
		t.Errorf("%.1f ms of waits, want %.1f", got/1e6, want/1e6)
	}
	if q.MaxDepth < n-8 || q.MaxDepth > n || math.Abs(float64(q.MaxDepth)-float64(q.KernelMax)) > 2 {
		t.Errorf("largest depth %d, kernel's %d, want %d and no more than 8 below", q.MaxDepth, q.KernelMax, n)
	}
	if q.Compared != n || math.Abs(ours-kernel) > 1 {
		t.Errorf("mean depth %.2f, kernel's %.2f of %d", ours, kernel, q.Compared)
	}
	if math.Abs(little.Difference) > 0.001*little.Depth {
		t.Errorf("Little's law: %+v", little)
	}
	for size := 2; size < n/2; size++ { // at the ends the bucket lets more pass at once
		if q.Sizes[size] < 1 || q.Sizes[size] > 2 {
			t.Errorf("%d packets left %d behind them, want 1", q.Sizes[size], size-1)
		}
	}
	between(t, middle, s)
}

// between looks at an interval in which the queue only ran dry.
func between(t *testing.T, before, after Snapshot) {
	t.Helper()
	b, q := queueOf(t, before, "in1", false), queueOf(t, after.Sub(before), "in1", false)
	d := after.Time.Sub(before.Time)
	t.Logf("%d at first (kernel's %d), then %d more in %v, most %d, %+v", b.Depth, b.KernelDepth, q.Arrivals, d, q.RecentMax, q.Little(d))
	if b.Depth < 100 || math.Abs(float64(b.Depth)-float64(b.KernelDepth)) > 5 {
		t.Errorf("depth %d, kernel's %d", b.Depth, b.KernelDepth)
	}
	if q.Arrivals != 0 || q.Departures != b.Depth || q.RecentMax != b.Depth {
		t.Errorf("%d came, %d left, most %d of %d", q.Arrivals, q.Departures, q.RecentMax, b.Depth)
	}
	// It falls evenly from the depth to nothing: the mean is half of it while it does.
	gap := 1014 * 8 / 8e6 * 1e9
	want := float64(b.Depth) * float64(b.Depth) * gap / 2
	if got := float64(q.IntegralNs); math.Abs(got-want) > 0.05*want {
		t.Errorf("integral %.3g, want %.3g", got, want)
	}
}

func TestNothingIsLeftInQueues(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(r *rig)
		run     func(r *rig)
	}{
		{"forwarded", func(r *rig) {}, func(r *rig) { r.flood("10.9.2.2:9", 5000, 100) }},
		{"dropped before", func(r *rig) { r.classify("in0", 2) }, func(r *rig) { r.flood("10.9.2.2:9", 500, 100) }},
		{"dropped inside", func(r *rig) { r.rule(3) }, func(r *rig) { r.flood("10.9.2.2:9", 2000, 100) }},
		{"dropped behind", func(r *rig) {
			r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "1mbit", "burst", "1600", "limit", "2000")
		}, func(r *rig) { r.flood("10.9.2.2:9", 500, 200) }},
		{"delivered", func(r *rig) {}, func(r *rig) { r.flood("10.9.1.1:9", 500, 100) }},
		{"merged", func(r *rig) { r.offload("gro on") }, func(r *rig) { r.stream("10.9.2.2:9", 3_000_000) }},
		{"merged and cut", func(r *rig) { r.offload("gro on tso off") }, func(r *rig) { r.stream("[fd09:2::2]:9", 3_000_000) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := build(t)
			c.prepare(r)
			emptied(t, whole(t, func() Snapshot {
				profile := r.profile(Options{})
				defer profile.detach()
				c.run(r)
				return settled(t, profile)
			}))
		})
	}
}

// A packet in the queue is in the queue's depth, the whole time.
func TestDepthIsWhatIsInFlight(t *testing.T) {
	r := build(t)
	r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "1mbit", "burst", "1600", "limit", "1000000")
	emptied(t, whole(t, func() Snapshot {
		profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP}})
		defer profile.detach()
		r.flood("10.9.2.2:9", 50, 1000)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var before Snapshot
		for last := uint64(50); last > 10 && ctx.Err() == nil; {
			s, err := profile.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			q := queueOf(t, s, "in1", false)
			if q.Depth > last || q.Depth+q.Departures != 50 {
				t.Fatalf("depth %d after %d, %d left", q.Depth, last, q.Departures)
			}
			if before.Queues != nil && q.IntegralNs < queueOf(t, before, "in1", false).IntegralNs {
				t.Fatalf("the integral falls")
			}
			last, before = q.Depth, s
		}
		return settled(t, profile)
	}))
}

func TestLittleIsAnIdentityWhereNothingIsLeft(t *testing.T) {
	q := Queue{Arrivals: 10, Departures: 10, IntegralNs: 5e9, WaitedNs: 5e9}
	l := q.Little(2 * time.Second)
	if l.Depth != 2.5 || l.Rate != 5 || l.WaitNs != 5e8 || l.Product != 2.5 || l.Difference != 0 {
		t.Errorf("%+v", l)
	}
	if l := (Queue{IntegralNs: 100}).Little(100); l.Difference != 1 {
		t.Errorf("nothing left, one waits: %+v", l)
	}
	if l := q.Little(0); l != (Little{}) {
		t.Errorf("no time: %+v", l)
	}
}

func TestBacklogsAreAddedUp(t *testing.T) {
	const text = "0bc8adc7 0 b 0 0 0 0 0 0 0 0 0000000a 00000000 00000000 0000000a\n081b5173 0 1 0 0 0 0 0 0 1 0 00000010 1 0 0\n1 2 3\n"
	if got := parseSoftnet(text); got != 26 {
		t.Errorf("got %d, want 26", got)
	}
}
