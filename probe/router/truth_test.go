package router

import (
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/probe/test/hold"
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

// truths are packets whose way through the router is known. Each fails the test where
// what the profile says cannot be, however late the machine is, and returns how far it is
// from the truth, which depends on that.
var truths = map[string]func(t *testing.T) []comparison{
	"queue at the output": truthOfAQueueAtTheOutput,
	"held processing":     truthOfHeldProcessing,
	"delaying process":    truthOfADelayingProcess,
	"held processor":      truthOfAHeldProcessor,
}

func TestTruth(t *testing.T) {
	for name, truth := range truths {
		t.Run(name, func(t *testing.T) { tell(t, truth(t)) })
	}
}

// within fails the test unless the packet was held between two of its times.
func (r Record) within(t *testing.T, held hold.Span, from, to uint64) {
	t.Helper()
	if held.Begin < from || held.End > to {
		t.Errorf("a packet was held from %d to %d, the profile says between %d and %d", held.Begin, held.End, from, to)
	}
}

func truthOfAQueueAtTheOutput(t *testing.T) []comparison {
	const (
		rate  = 10_000_000 // bytes a second: 80mbit
		full  = 4000       // bytes that may leave at once: a packet that is late loses no tokens
		frame = truthPayload + ipUDP + ethernet
		size  = 12
		count = 40 * size
	)
	r := build(t)
	r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "80mbit",
		"burst", strconv.Itoa(full), "limit", "1000000")
	passed := holdAt(t, r, link.NetfilterInetPostRouting, 0)
	profile := r.profile(Options{Match: truthMatch, Records: true})
	receiver := r.observe(truthAddress)
	var sent []uint64
	records := trace(t, profile, func() {
		sent = r.paced(truthAddress, count, truthPayload, bursts(size, 4*time.Millisecond))
	})
	records, of := r.belong(profile, records, sent)
	came, entered := receiver.arrivals(count), spans(t, passed)
	if len(entered) != count {
		t.Fatalf("%d packets were seen to enter the queue, want %d", len(entered), count)
	}
	queue := bucket{full: full * 1e9 / rate, cost: frame * 1e9 / rate, tokens: full * 1e9 / rate, last: sent[0]}
	byBucket := make([]uint64, count)
	for i := range sent {
		byBucket[i] = queue.admit(sent[i]) - sent[i]
	}
	var model, observed spread
	for n, record := range records {
		i := of[n]
		record.within(t, entered[i], record.T2, record.T3)
		model.add(record.output(), int64(byBucket[i]))
		observed.add(record.output(), int64(came[uint64(i)]-entered[i].Begin))
	}
	// The queue's timer is as late as the machine is, and the packets wait for it: by
	// the bucket alone they would have left earlier.
	return []comparison{
		{"output queuing, by an observer", observed, bar},
		{"output queuing, by the bucket", model, 0},
	}
}

func truthOfHeldProcessing(t *testing.T) []comparison {
	const count = 400
	r := build(t)
	holder := holdAt(t, r, link.NetfilterInetForward, 200*time.Microsecond)
	profile := r.profile(Options{Match: truthMatch, Records: true})
	r.listen(truthAddress)
	var sent []uint64
	records := trace(t, profile, func() {
		sent = r.paced(truthAddress, count, truthPayload, bursts(1, 400*time.Microsecond))
	})
	records, of := r.belong(profile, records, sent)
	held := spans(t, holder)
	if len(held) != count {
		t.Fatalf("%d packets were held, want %d", len(held), count)
	}
	var processing, others spread
	for n, record := range records {
		record.within(t, held[of[n]], record.T2, record.T3)
		processing.add(record.processing(), int64(held[of[n]].Length()))
		others.add(record.input()+record.output(), 0)
	}
	return []comparison{{"processing", processing, bar}, {"other stages", others, elsewhere}}
}

func truthOfADelayingProcess(t *testing.T) []comparison {
	const count = 400
	r := build(t)
	profile := r.profile(Options{Match: truthMatch, Records: true})
	r.listen(truthAddress)
	var process *hold.Process
	err := netns.Do(r.router, func() (err error) {
		process, err = hold.HoldByProcess(1, 200*time.Microsecond)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var sent []uint64
	records := trace(t, profile, func() {
		sent = r.paced(truthAddress, count, truthPayload, bursts(1, 500*time.Microsecond))
	})
	held, err := process.Stop()
	if err != nil {
		t.Fatal(err)
	}
	records, of := r.belong(profile, records, sent)
	if len(held) != count {
		t.Fatalf("%d packets were held, want %d", len(held), count)
	}
	var alone, processing, others spread
	for n, record := range records { // held for no time: that is the way there and back
		record.within(t, held[of[n]], record.T2, record.T3)
		if of[n]%8 == 0 {
			alone.add(record.processing(), int64(held[of[n]].Length()))
		}
	}
	for n, record := range records {
		if of[n]%8 != 0 {
			processing.add(record.processing(), int64(held[of[n]].Length())+int64(alone.median()))
		}
		others.add(record.input()+record.output(), 0)
	}
	return []comparison{
		{"processing, by what it grows", processing, bar}, {"other stages", others, elsewhere},
		{"processing of packets that are not held", alone, 0},
	}
}

func truthOfAHeldProcessor(t *testing.T) []comparison {
	const count = 1000
	r := build(t)
	r.steer("in0", 1)
	profile := r.profile(Options{Match: truthMatch, Records: true})
	r.listen(truthAddress)
	hog, err := hold.HoldProcessor(1, 500*time.Microsecond, 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer hog.Close()
	var sent []uint64
	records := trace(t, profile, func() {
		sent = r.paced(truthAddress, count, truthPayload, bursts(1, 470*time.Microsecond))
	})
	if err := hog.Stop(); err != nil {
		t.Fatal(err)
	}
	records, _ = r.belong(profile, records, sent)
	held, err := hog.Spans()
	if err != nil {
		t.Fatal(err)
	}
	var input, others, free spread
	for _, record := range records {
		until := heldUntil(held, record.T1)
		if until == 0 {
			free.add(record.input(), 0)
			continue
		}
		if record.T2 < until {
			t.Errorf("a packet waited until %d, the profile says until %d", until, record.T2)
		}
		input.add(record.input(), int64(until-record.T1))
		others.add(record.processing()+record.output(), 0)
	}
	t.Logf("%d of %d packets came while the processor was held, %d times", len(input), count, len(held))
	return []comparison{
		{"input queuing", input, bar}, {"other stages", others, elsewhere},
		{"input queuing of an idle processor", free, 0},
	}
}

// heldUntil is the end of the span that the time lies in; 0: none.
func heldUntil(held []hold.Span, at uint64) uint64 {
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

func spans(t *testing.T, holder *hold.Packets) []hold.Span {
	t.Helper()
	all, err := holder.Spans()
	if err != nil {
		t.Fatal(err)
	}
	return all
}
