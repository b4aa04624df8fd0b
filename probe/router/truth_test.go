package router

import (
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/probe/router/hold"
)

// What is known of the packets here comes from outside of the profile: the sender's
// log, the receiver's stamps, a model of the queue, the logs of who held them.

const (
	truthAddress = "10.9.2.2:9"
	truthPayload = 1000
	ethernet     = 14
	ipUDP        = 28
)

// truthMatch takes only the packets that are sent here.
var truthMatch = Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}

// bursts are gaps of bursts of so many packets.
func bursts(size int, between time.Duration) func(i int) time.Duration {
	return func(i int) time.Duration {
		if i%size == 0 {
			return between
		}
		return 0
	}
}

// bucket is the queue's token bucket as it is defined; times are in ns.
type bucket struct {
	full, cost int64 // what it holds, what a packet takes
	tokens     int64
	last       uint64 // when tokens were counted
	departed   uint64
}

// admit returns when a packet that comes then may leave.
func (b *bucket) admit(came uint64) uint64 {
	at := max(came, b.departed)
	b.tokens = min(b.full, b.tokens+int64(at-b.last))
	if b.tokens < b.cost {
		at += uint64(b.cost - b.tokens)
		b.tokens = b.cost
	}
	b.tokens -= b.cost
	b.last, b.departed = at, at
	return at
}

func TestTruthOfAQueueAtTheOutput(t *testing.T) {
	const (
		rate  = 10_000_000 // bytes a second: 80mbit
		size  = 10
		count = 40 * size
	)
	try(t, func() map[string]spread {
		r := build(t)
		r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "80mbit", "burst", "1600", "limit", "100000")
		passed := holdAt(t, r, link.NetfilterInetPostRouting, 0)
		profile := r.profile(Options{Match: truthMatch, Records: true})
		receiver := r.observe(truthAddress)
		var sent []uint64
		records := collect(t, profile, count, func() {
			sent = r.paced(truthAddress, count, truthPayload, bursts(size, 4*time.Millisecond))
		})
		belong(t, records, sent)
		sumsUp(t, pair(t, settled(t, profile), "in0", "in1"), records)
		came, entered := receiver.arrivals(count), spans(t, passed, count)
		const frame = truthPayload + ipUDP + ethernet
		queue := bucket{full: 1600 * 1e9 / rate, cost: frame * 1e9 / rate, tokens: 1600 * 1e9 / rate, last: sent[0]}
		var model, seen, whole spread
		for i, record := range records {
			model.add(record.output(), int64(queue.admit(sent[i])-sent[i]))
			seen.add(record.output(), int64(came[uint64(i)]-entered[i].Begin))
			whole.add(record.T4-record.T1, int64(came[uint64(i)]-sent[i]))
		}
		return map[string]spread{
			"output queuing, by the bucket": model, "output queuing, by an observer": seen, "transit, by the hosts": whole,
		}
	})
}

func TestTruthOfHeldProcessing(t *testing.T) {
	const count = 400
	try(t, func() map[string]spread {
		r := build(t)
		holder := holdAt(t, r, link.NetfilterInetForward, 200*time.Microsecond)
		profile := r.profile(Options{Match: truthMatch, Records: true})
		receiver := r.observe(truthAddress)
		var sent []uint64
		records := collect(t, profile, count, func() {
			sent = r.paced(truthAddress, count, truthPayload, bursts(1, 400*time.Microsecond))
		})
		belong(t, records, sent)
		sumsUp(t, pair(t, settled(t, profile), "in0", "in1"), records)
		came, held := receiver.arrivals(count), spans(t, holder, count)
		var processing, others, whole spread
		for i, record := range records {
			processing.add(record.processing(), int64(held[i].Length()))
			others.add(record.input()+record.output(), 0)
			whole.add(record.T4-record.T1, int64(came[uint64(i)]-sent[i]))
		}
		return map[string]spread{"processing": processing, "other stages": others, "transit, by the hosts": whole}
	})
}

func TestTruthOfAHeldProcessor(t *testing.T) {
	const count = 1000
	try(t, func() map[string]spread {
		r := build(t)
		r.steer(1)
		profile := r.profile(Options{Match: truthMatch, Records: true})
		r.observe(truthAddress)
		hog, err := hold.HoldProcessor(1, 500*time.Microsecond, 2*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		defer hog.Close()
		var sent []uint64
		records := collect(t, profile, count, func() {
			sent = r.paced(truthAddress, count, truthPayload, bursts(1, 470*time.Microsecond))
		})
		if err := hog.Stop(); err != nil {
			t.Fatal(err)
		}
		belong(t, records, sent)
		sumsUp(t, pair(t, settled(t, profile), "in0", "in1"), records)
		held, err := hog.Spans()
		if err != nil {
			t.Fatal(err)
		}
		var input, others, free spread
		for _, record := range records {
			until := within(held, sent, record.T1)
			if until == 0 {
				free.add(record.input(), 0)
				continue
			}
			input.add(record.input(), int64(until-record.T1))
			others.add(record.processing()+record.output(), 0)
		}
		t.Logf("%d of %d packets came while the processor was held, %d times", len(input), count, len(held))
		return map[string]spread{"input queuing": input, "other stages": others, "input queuing else": free}
	})
}

// within is the end of the span that the time lies in; 0: none.
func within(held []hold.Span, _ []uint64, at uint64) uint64 {
	for _, span := range held {
		if span.Begin <= at && at < span.End {
			return span.End
		}
	}
	return 0
}

// holdAt holds the router's packets, of those that are sent here, until the test ends.
func holdAt(t *testing.T, r *rig, at link.NetfilterInetHook, d time.Duration) *hold.Packets {
	t.Helper()
	var holder *hold.Packets
	err := netns.Do(r.router, func() (err error) {
		holder, err = hold.HoldPackets(at, d, truthPayload)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := holder.Close(); err != nil {
			t.Error(err)
		}
	})
	return holder
}

func spans(t *testing.T, holder *hold.Packets, n int) []hold.Span {
	t.Helper()
	all, err := holder.Spans()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != n {
		t.Fatalf("%d packets were held, want %d", len(all), n)
	}
	return all
}

// steer makes the router take in what comes from the left on another processor than
// the sender's, as interfaces with queues of their own do.
func (r *rig) steer(cpu int) {
	r.t.Helper()
	r.run(r.left, "ip", "link", "del", "out")
	r.run(r.router, "sysctl", "-qw", "net.core.rps_default_mask="+string(rune('0'+1<<cpu)))
	r.join(r.left, "out", "in0", 1)
	r.warm()
}
