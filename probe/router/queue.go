package router

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/quantity"
)

// Queue is how many packets wait at one side of an interface: packets that the profile
// follows, as far as filter and sampling let it. What they wait behind is not only
// queues: everything between the two hooks counts, GRO's hold among it, and nothing
// before t1 does, such as the ring of the network card.
//
// The kernel's own figures stand beside and count something else: for an input the
// backlog of the processor, which all interfaces and namespaces share and which
// drivers with NAPI do not use; for an output the qdisc, with the packets of the
// router itself and, behind GSO, segments; for a VLAN, a bridge and their like the
// qdisc of the interface below.
type Queue struct {
	Interface Interface `json:"interface"`
	Input     bool      `json:"input"` // between t1 and t2; else between t3 and t4
	// Packets that came, and left; Ended of those that left went no further: dropped,
	// merged, delivered, or lost.
	Arrivals   uint64 `json:"arrivals"`
	Departures uint64 `json:"departures"`
	Ended      uint64 `json:"ended"`
	// Depth now and the largest; the integral of the depth over time, for the mean.
	Depth    uint64 `json:"depth"`
	MaxDepth uint64 `json:"max_depth"`
	// RecentMax is the largest since the previous snapshot, whoever took that.
	RecentMax  uint64 `json:"recent_max_depth"`
	IntegralNs uint64 `json:"integral_packet_ns"`
	WaitedNs   uint64 `json:"waited_ns"` // sum of the waits of those that left
	// KernelDepth is the backlog of all processors (input) or what is in the qdiscs
	// (output), now.
	KernelDepth uint64 `json:"kernel_depth"`
	// Compared is how often the kernel's depth was read when a packet left; at the same
	// instants FoundSum adds up ours, KernelSum the kernel's, both with the packet
	// itself. KernelMax is the largest of the kernel's. There is none where the kernel
	// does not tell: qdiscs that spread their length over processors (pfifo_fast).
	Compared  uint64 `json:"compared"`
	FoundSum  uint64 `json:"found_sum"`
	KernelSum uint64 `json:"kernel_sum"`
	KernelMax uint64 `json:"kernel_max_depth"`
	// Sizes counts by depth that a packet found when it left, itself included: 0 to
	// 1023, the last is all above.
	Sizes []uint64 `json:"-"`
	// Came counts, likewise, by packets that came between two departures (seed 3).
	Came []uint64 `json:"-"`
}

// Mean depth over the time that the counts are of.
func (q Queue) Mean(d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(q.IntegralNs) / float64(d)
}

// Means are the mean depths that packets found when they left, ours and the kernel's.
func (q Queue) Means() (ours, kernel float64) {
	if q.Compared == 0 {
		return 0, 0
	}
	return float64(q.FoundSum) / float64(q.Compared), float64(q.KernelSum) / float64(q.Compared)
}

// Little is Little's law for one queue: Depth = Rate * Wait. The left side comes from
// counting arrivals and departures over time, the right side from each packet's own two
// times; so they differ if packets got lost between the two, and over short times by
// what waits at their ends. It does not prove that the times are right.
type Little struct {
	Depth      float64 `json:"mean_depth"`      // L, packets
	Rate       float64 `json:"rate_per_second"` // lambda, of those that left
	WaitNs     float64 `json:"mean_wait_ns"`    // W
	Product    float64 `json:"product"`         // lambda * W, packets
	Difference float64 `json:"difference"`      // L - lambda * W
}

// MarshalJSON writes null for the wait of no packet.
func (l Little) MarshalJSON() ([]byte, error) {
	type figures Little
	return quantity.MarshalMeasured(l.Rate > 0, figures(l), "mean_wait_ns")
}

// Little puts both sides of Little's law side by side.
func (q Queue) Little(d time.Duration) Little {
	l := Little{Depth: q.Mean(d)}
	if d <= 0 || q.Departures == 0 {
		l.Difference = l.Depth
		return l
	}
	l.Rate = float64(q.Departures) / d.Seconds()
	l.WaitNs = float64(q.WaitedNs) / float64(q.Departures)
	l.Product = l.Rate * l.WaitNs / 1e9
	l.Difference = l.Depth - l.Product
	return l
}

// Sub is what came between before and q. Depths now and the largest of all time stay;
// RecentMax is the interval's maximum if no other snapshot was taken in it.
func (q Queue) Sub(before Queue) Queue {
	q.Arrivals -= before.Arrivals
	q.Departures -= before.Departures
	q.Ended -= before.Ended
	q.IntegralNs -= before.IntegralNs
	q.WaitedNs -= before.WaitedNs
	q.Compared -= before.Compared
	q.FoundSum -= before.FoundSum
	q.KernelSum -= before.KernelSum
	q.RecentMax = max(q.RecentMax, before.Depth)
	q.Sizes = subtract(q.Sizes, before.Sizes)
	q.Came = subtract(q.Came, before.Came)
	return q
}

func subQueues(after, before []Queue) (differences []Queue) {
	for _, q := range after {
		for _, b := range before {
			if b.Interface.Index == q.Interface.Index && b.Input == q.Input {
				q = q.Sub(b)
				break
			}
		}
		differences = append(differences, q)
	}
	return differences
}

// queueSides is the number of queues of an interface, as in queue.h: input first.
const queueSides = 2

// readQueues reads all queues. The next reading's RecentMax counts from here.
func (r *Router) readQueues(names map[int]string) ([]Queue, error) {
	var keys [maxPairs]uint32
	var epoch uint64
	if err := r.collection.Variables[routerVarQueueKeys].Get(&keys); err != nil {
		return nil, err
	}
	if err := r.collection.Variables[routerVarQueueEpoch].Get(&epoch); err != nil {
		return nil, err
	}
	kernel := r.kernelDepths()
	var all []Queue
	for number := range uint32((r.places + 1) * queueSides) {
		index, side := 0, number%queueSides
		if place := number / queueSides; place > 0 {
			if index = int(keys[place-1]); index == 0 {
				continue
			}
		}
		q := Queue{Interface: identify(names, index), Input: side == 0}
		if err := r.readQueue(&q, number, epoch); err != nil {
			return nil, fmt.Errorf("read queue of %s: %w", q.Interface.Name, err)
		}
		if q.Arrivals == 0 {
			continue
		}
		q.KernelDepth = kernel[index]
		if q.Input {
			q.KernelDepth = kernel[backlogs]
		}
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b Queue) int {
		if a.Interface.Index == b.Interface.Index && a.Input {
			return -1
		}
		return cmp.Compare(a.Interface.Index, b.Interface.Index)
	})
	return all, r.collection.Variables[routerVarQueueEpoch].Set(epoch + 1)
}

func (r *Router) readQueue(q *Queue, number uint32, epoch uint64) error {
	sums, now, err := r.queueSums(number)
	if err != nil {
		return err
	}
	var moment uint64
	for _, s := range sums {
		q.Arrivals += s.Arrivals
		q.Departures += s.Departures
		q.Ended += s.Ended
		q.WaitedNs += s.Waited
		q.Compared += s.KernelRead
		q.FoundSum += s.Found
		q.KernelSum += s.Kernel
		q.KernelMax = max(q.KernelMax, s.KernelHigh)
		q.MaxDepth = max(q.MaxDepth, s.High)
		if s.Epoch == epoch {
			q.RecentMax = max(q.RecentMax, s.Recent)
		}
		moment += s.Moment
	}
	if q.Arrivals == 0 {
		return nil
	}
	// A processor that was read later may have sent on what came at one read before.
	depth := q.Arrivals - q.Departures
	q.IntegralNs = moment + depth*now
	q.Depth = uint64(max(int64(depth), 0))
	q.RecentMax = max(q.RecentMax, q.Depth)
	var sizes []routerQueueSize
	if err := r.collection.Maps[routerMapQueueSizes].Lookup(&number, &sizes); err != nil {
		return err
	}
	for i := range sizes {
		q.Sizes = add(q.Sizes, sizes[i].Sizes[:])
		q.Came = add(q.Came, sizes[i].Came[:])
	}
	return nil
}

// queueSums reads the sums of each processor, none while it writes, and the time after.
func (r *Router) queueSums(number uint32) (whole []routerQueueSum, now uint64, err error) {
	const torn = 100
	var each []routerQueueSum
	var have []bool
	for range torn {
		if err := r.collection.Maps[routerMapQueueSums].Lookup(&number, &each); err != nil {
			return nil, 0, err
		}
		if whole == nil {
			whole, have = make([]routerQueueSum, len(each)), make([]bool, len(each))
		}
		for i, s := range each {
			if !have[i] {
				whole[i], have[i] = s, s.Events == s.Arrivals+s.Departures
			}
		}
		if !slices.Contains(have, false) {
			break
		}
	}
	now, err = monotonic()
	return whole, now, err
}

// monotonic is the clock of the programs.
func monotonic() (uint64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("read clock: %w", err)
	}
	return uint64(t.Nano()), nil
}
