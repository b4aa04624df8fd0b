package runner

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/session"
)

// TestSettleRefuses: a source can only claim packets of its own flows to this host, and only
// since marks are read here.
func TestSettleRefuses(t *testing.T) {
	r := newRoad(t)
	var lock sync.Mutex
	now := moment{day: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	d := r.open(func() moment {
		lock.Lock()
		defer lock.Unlock()
		return now
	}, task("s", false, time.Second))
	d.start()
	t.Cleanup(func() {
		if err := netns.Do(r.to, d.close); err != nil {
			t.Error(err)
		}
	})
	pass := func(time time.Duration) {
		lock.Lock()
		now.day, now.steady = now.day.Add(time), now.steady+time
		lock.Unlock()
		d.mu.Lock()
		d.read(d.now())
		d.mu.Unlock()
	}
	own := map[netip.Addr]bool{netip.MustParseAddr(destinationAddress): true}
	report := func(name, source string, age time.Duration, src, dst string) *session.SentReport {
		return &session.SentReport{Session: name, Source: source, Interval: session.Duration(time.Second), Age: session.Duration(age), Flows: []session.SentFlow{{
			Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), Protocol: 17, Sport: 1, Dport: 2, Start: 0x10000, First: 0x10000, Next: 0x10007,
		}}}
	}
	pass(10 * time.Second)
	for _, refused := range []*session.SentReport{
		report("s", "other", 0, sourceAddress, destinationAddress),
		report("s", "a", 0, "192.0.2.9", destinationAddress),
		report("s", "a", 0, sourceAddress, "192.0.2.9"),
		report("another", "a", 0, sourceAddress, destinationAddress),
		report("s", "a", 9500*time.Millisecond, sourceAddress, destinationAddress), // from before the task
	} {
		d.settle(refused, own)
	}
	pass(2 * time.Second)
	if sums := fmt.Sprint(r.sums("s")); sums != "0 expected, 0 lost" {
		t.Errorf("of what is refused: %s", sums)
	}
	if n := d.states()[0].Counters["sent_packets_refused"]; n != 3*7 {
		t.Errorf("%d packets refused, want %d", n, 3*7)
	}
	d.settle(report("s", "a", 0, sourceAddress, destinationAddress), own)
	pass(settleAfter / 2)
	if sums := fmt.Sprint(r.sums("s")); sums != "0 expected, 0 lost" {
		t.Errorf("while packets may be on their way: %s", sums)
	}
	pass(settleAfter)
	pass(time.Second)
	if sums := fmt.Sprint(r.sums("s")); sums != "7 expected, 7 lost" {
		t.Errorf("a flow that was lost whole: %s", sums)
	}
}

func (r *road) sums(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d expected, %d lost", r.flows[name]["expected"], r.flows[name]["lost"])
}
