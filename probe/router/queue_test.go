package router

import (
	"context"
	"math"
	"slices"
	"strconv"
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
		// A packet whose end no hook saw counts as in flight, and so as in its queue.
		if q.Depth > s.Account.InFlight || q.Arrivals != q.Departures+q.Depth {
			t.Errorf("%s, input %v: depth %d, %d arrived, %d left", q.Interface.Name, q.Input, q.Depth, q.Arrivals, q.Departures)
		}
		if q.Depth == 0 && q.IntegralNs != q.WaitedNs {
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
const (
	bucketRate  = 8e6 // bits a second
	bucketFrame = 1014
	bucketFull  = 2000 // bytes that may leave at once
	bucketSent  = 200
	bucketGap   = bucketFrame * 8 / bucketRate * 1e9
)

// bucketed is what the profile says of packets that waited in a token bucket.
type bucketed struct {
	sent          []uint64 // when each was handed to the kernel
	middle, s     Snapshot // when all were, and at the end
	took          time.Duration
	missed        uint64
	queue         Queue
	ours, kernels float64 // mean depths
	little        Little
}

func throughBucket(t *testing.T) (b bucketed) {
	t.Helper()
	r := build(t)
	// Multicast listener reports would wait in the bucket, which the profile does not match.
	r.configure(r.router, "ipv6/conf/in1/disable_ipv6", "1")
	r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "8mbit",
		"burst", strconv.Itoa(bucketFull), "limit", "1000000")
	profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP}})
	r.listen("10.9.2.2:9")
	begin := time.Now()
	b.sent = r.paced("10.9.2.2:9", bucketSent, bucketFrame-42, func(int) time.Duration { return 0 })
	var err error
	if b.middle, err = profile.Snapshot(); err != nil {
		t.Fatal(err)
	}
	b.s = settled(t, profile)
	b.took = time.Since(begin)
	r.closes(b.s.Account)
	b.missed = r.hidden(b.s.Account, bucketSent)
	emptied(t, b.s)
	b.queue = queueOf(t, b.s, "in1", false)
	b.ours, b.kernels = b.queue.Means()
	b.little = b.queue.Little(b.took)
	t.Logf("most %d, kernel's %d; means %.2f, kernel's %.2f of %d; %+v", b.queue.MaxDepth, b.queue.KernelMax,
		b.ours, b.kernels, b.queue.Compared, b.little)
	return b
}

// least is the shortest that each packet can have waited: none leaves before the bucket
// lets it, and each was in the queue when the next was sent.
func (b bucketed) least() (waits []float64) {
	// The kernel rounds the cost of a packet down, to less than a thousandth.
	const cost = int64(bucketGap) * 999 / 1000
	full := int64(bucketFull * 8 / bucketRate * 1e9)
	model := bucket{full: full, cost: cost, tokens: full, last: b.sent[0]}
	for i, sent := range b.sent[:len(b.sent)-1] {
		waits = append(waits, max(0, float64(model.admit(sent))-float64(b.sent[i+1])))
	}
	slices.Sort(waits)
	return waits
}

// TestQueueOfTokenBucket: however late the machine sends, packets wait at least as long
// as the bucket keeps them, and what is said of the queue agrees with itself and with
// what the kernel says of its own.
func TestQueueOfTokenBucket(t *testing.T) {
	b := throughBucket(t)
	q := b.queue
	var least float64
	for _, wait := range b.least()[:bucketSent-1-b.missed] {
		least += wait
	}
	most := float64(bucketSent) * float64(b.took)
	if got := float64(q.WaitedNs); got < least || got > most {
		t.Errorf("%.1f ms of waits, want from %.1f to %.1f", got/1e6, least/1e6, most/1e6)
	}
	if q.MaxDepth > bucketSent || math.Abs(float64(q.MaxDepth)-float64(q.KernelMax)) > 2+float64(b.missed) {
		t.Errorf("largest depth %d, kernel's %d, of %d packets", q.MaxDepth, q.KernelMax, bucketSent)
	}
	if q.Compared > bucketSent || q.Compared+b.missed < bucketSent || math.Abs(b.ours-b.kernels) > 1+float64(b.missed) {
		t.Errorf("mean depth %.2f, kernel's %.2f of %d", b.ours, b.kernels, q.Compared)
	}
	if q.Depth == 0 && math.Abs(b.little.Difference) > 0.001*b.little.Depth {
		t.Errorf("Little's law: %+v", b.little)
	}
	// After all were sent the queue only runs dry.
	before, since := queueOf(t, b.middle, "in1", false), queueOf(t, b.s.Sub(b.middle), "in1", false)
	if since.Arrivals != 0 || since.Departures+q.Depth != before.Depth || since.RecentMax != before.Depth {
		t.Errorf("%d came, %d left, most %d of %d", since.Arrivals, since.Departures, since.RecentMax, before.Depth)
	}
}

func TestQueuesAreEmptyAtTheEnd(t *testing.T) {
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
			profile := r.profile(Options{})
			c.run(r)
			s := settled(t, profile)
			r.closes(s.Account)
			emptied(t, s)
		})
	}
}

// A packet in the queue is in the queue's depth, the whole time.
func TestDepthEqualsPacketsInFlight(t *testing.T) {
	r := build(t)
	r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "1mbit", "burst", "1600", "limit", "1000000")
	profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP}})
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
		if met := q.Depth + q.Departures; q.Depth > last || met > 50 || met < 50 && met != s.Account.Seen {
			t.Fatalf("depth %d after %d, %d left, %d seen", q.Depth, last, q.Departures, s.Account.Seen)
		}
		if before.Queues != nil && q.IntegralNs < queueOf(t, before, "in1", false).IntegralNs {
			t.Fatalf("the integral falls")
		}
		last, before = q.Depth, s
	}
	s := settled(t, profile)
	r.closes(s.Account)
	r.hidden(s.Account, 50)
	emptied(t, s)
}

func TestLittlesLawIsExactForEmptyQueues(t *testing.T) {
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

func TestBacklogOfAllProcessors(t *testing.T) {
	const text = "0bc8adc7 0 b 0 0 0 0 0 0 0 0 0000000a 00000000 00000000 0000000a\n081b5173 0 1 0 0 0 0 0 0 1 0 00000010 1 0 0\n1 2 3\n"
	if got := parseSoftnet(text); got != 26 {
		t.Errorf("got %d, want 26", got)
	}
}
