package live

import (
	"math"
	"math/bits"
	"time"

	"pillion.dev/archive"
)

// sum is what rows of one window add up to.
type sum struct {
	archive.Window
	delay, ipdv weighing
	// own is how many rows had quantiles of their own.
	own int
}

// weighing keeps a mean by weight, and the quantiles of the heaviest row.
type weighing struct {
	total, weight float64
	heaviest      float64
}

func newSum(start time.Time) *sum {
	none := archive.NoDistribution()
	s := &sum{Window: archive.Window{Start: start, Delay: none, IPDV: none, ClockError: math.NaN()}}
	s.delay.heaviest, s.ipdv.heaviest = -1, -1
	return s
}

// add takes a row in.
func (s *sum) add(r *rows, i int) {
	for _, one := range [...]struct {
		to   *uint64
		from func(int) (uint64, bool)
	}{
		{&s.Packets, r.packets}, {&s.Bytes, r.bytes}, {&s.Expected, r.expected}, {&s.Lost, r.lost},
		{&s.Duplicated, r.duplicated}, {&s.Reordered, r.reordered}, {&s.Late, r.late},
	} {
		n, _ := one.from(i)
		*one.to = added(*one.to, n)
	}
	packets, _ := r.packets(i)
	if s.delay.add(&s.Delay, &r.delay, i, packets) {
		s.own++
	}
	s.ipdv.add(&s.IPDV, &r.ipdv, i, packets)
	s.ClockError = larger(s.ClockError, r.clock(i))
	r.buckets(i, s.Buckets.AddBucket)
}

// add takes a distribution of a row in, and says whether it had quantiles.
func (w *weighing) add(to *archive.Distribution, from *figures, i int, packets uint64) bool {
	count, counted := from.count(i)
	to.Count = added(to.Count, count)
	weight := float64(count)
	if !counted {
		weight = float64(max(packets, 1))
	}
	if v, ok := from.min(i); ok {
		to.Min = -larger(-to.Min, -float64(v))
	}
	if v, ok := from.max(i); ok {
		to.Max = larger(to.Max, float64(v))
	}
	if v, ok := from.mean(i); ok && weight > 0 {
		w.total += float64(v) * weight
		w.weight += weight
		to.Mean = w.total / w.weight
	}
	p50, ok := from.p50(i)
	if ok && weight > w.heaviest {
		w.heaviest = weight
		to.P50 = float64(p50)
		to.P90, to.P99 = optional(from.p90(i)), optional(from.p99(i))
	}
	return ok
}

// fill takes in what other rows add up to.
func (s *sum) fill(w *archive.Window) {
	for _, one := range [...]struct {
		to   *uint64
		more uint64
	}{
		{&s.Packets, w.Packets}, {&s.Bytes, w.Bytes}, {&s.Expected, w.Expected}, {&s.Lost, w.Lost},
		{&s.Duplicated, w.Duplicated}, {&s.Reordered, w.Reordered}, {&s.Late, w.Late},
	} {
		*one.to = added(*one.to, one.more)
	}
	s.delay.fill(&s.Delay, &w.Delay)
	s.ipdv.fill(&s.IPDV, &w.IPDV)
	if !math.IsNaN(w.Delay.P50) {
		s.own += 2 // not one row's own, at least
	}
	s.ClockError = larger(s.ClockError, w.ClockError)
	s.Buckets.Merge(&w.Buckets)
}

func (w *weighing) fill(to, more *archive.Distribution) {
	to.Count = added(to.Count, more.Count)
	to.Min, to.Max = -larger(-to.Min, -more.Min), larger(to.Max, more.Max)
	if weight := float64(more.Count); weight > 0 && !math.IsNaN(more.Mean) {
		w.total += more.Mean * weight
		w.weight += weight
		to.Mean = w.total / w.weight
	}
	if math.IsNaN(to.P50) {
		to.P50, to.P90, to.P99 = more.P50, more.P90, more.P99
	}
}

// window is the sum so far. One row has better quantiles of its own.
func (s *sum) window(histogram bool) archive.Window {
	w := s.Window
	if s.own != 1 && !s.Buckets.Empty() {
		w.Delay.Spread(&s.Buckets)
	}
	if !histogram {
		w.Buckets.Bounds, w.Buckets.Counts = nil, nil
	}
	return w
}

// added stops at the largest number.
func added(a, b uint64) uint64 {
	n, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return n
}

// larger takes NaN for none.
func larger(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

func optional(v int64, ok bool) float64 {
	if !ok {
		return math.NaN()
	}
	return float64(v)
}
