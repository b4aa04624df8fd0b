package router

import "math/bits"

// Shape of the histograms, as in stage.h.
const (
	linearBins  = 10000
	linearNs    = 1000
	coarseFirst = 23
	coarseSteps = 32
	coarseBins  = (36-coarseFirst)*coarseSteps + 1
)

// Mean of all times, exact, in ns; 0 if there is none.
func (d Distribution) Mean() float64 {
	if d.Count == 0 {
		return 0
	}
	return float64(d.SumNs) / float64(d.Count)
}

// Quantile is the time that a part q of all are not above, in ns. Inside a bin times
// count as evenly spread; below 10 ms it is so within 1 us, beyond within 3 %.
func (d Distribution) Quantile(q float64) (ns float64) {
	if d.Count == 0 {
		return 0
	}
	rank := min(max(q, 0), 1) * float64(d.Count)
	var below float64
	inside := func(low, high uint64, count uint64) bool {
		if below+float64(count) < rank {
			below += float64(count)
			return false
		}
		ns = float64(low) + float64(high-low)*(rank-below)/float64(count)
		return true
	}
	for i, count := range d.Bins {
		low, high := uint64(i)*linearNs, uint64(i+1)*linearNs
		if count > 0 && inside(max(low, d.MinNs), max(min(high, d.MaxNs), low, d.MinNs), count) {
			return ns
		}
	}
	for i, count := range d.Coarse {
		low, high := CoarseBounds(i)
		low = max(low, linearBins*linearNs, d.MinNs)
		if count > 0 && inside(low, max(min(high, d.MaxNs), low), count) {
			return ns
		}
	}
	return float64(d.MaxNs)
}

// CoarseBounds are the times, in ns, that coarse bin i begins and ends with. The first
// ones are empty: they lie below 10 ms.
func CoarseBounds(i int) (low, high uint64) {
	if i >= coarseBins-1 {
		return 1 << 36, 1<<64 - 1
	}
	power, step := uint(coarseFirst+i/coarseSteps), uint64(i%coarseSteps)
	width := uint64(1) << (power - uint(bits.Len(coarseSteps-1)))
	low = 1<<power + step*width
	return low, low + width
}

// Sub is what came since before. The least and largest of an interval are not kept:
// they are the bounds of its first and last bin, within those of all.
func (d Distribution) Sub(before Distribution) Distribution {
	if before.Count == 0 {
		return d
	}
	difference := Distribution{
		Count: d.Count - before.Count, SumNs: d.SumNs - before.SumNs,
		Bins: subtract(d.Bins, before.Bins), Coarse: subtract(d.Coarse, before.Coarse),
	}
	if difference.Count == 0 {
		return difference
	}
	low, high := difference.bounds()
	difference.MinNs, difference.MaxNs = max(low, d.MinNs), min(high, d.MaxNs)
	return difference
}

func (d Distribution) bounds() (low, high uint64) {
	found := false
	add := func(from, to uint64) {
		if !found {
			low, found = from, true
		}
		high = to
	}
	for i, count := range d.Bins {
		if count > 0 {
			add(uint64(i)*linearNs, uint64(i+1)*linearNs)
		}
	}
	for i, count := range d.Coarse {
		if count > 0 {
			add(CoarseBounds(i))
		}
	}
	return low, high
}

// Merge adds other to d, as for two processors.
func (d Distribution) Merge(other Distribution) Distribution {
	if d.Count == 0 {
		return other
	}
	if other.Count == 0 {
		return d
	}
	return Distribution{
		Count: d.Count + other.Count, SumNs: d.SumNs + other.SumNs,
		MinNs: min(d.MinNs, other.MinNs), MaxNs: max(d.MaxNs, other.MaxNs),
		Bins: add(d.Bins, other.Bins), Coarse: add(d.Coarse, other.Coarse),
	}
}

func add(a, b []uint64) []uint64 {
	return combine(a, b, func(x, y uint64) uint64 { return x + y })
}

func subtract(a, b []uint64) []uint64 {
	return combine(a, b, func(x, y uint64) uint64 { return x - y })
}

func combine(a, b []uint64, f func(x, y uint64) uint64) []uint64 {
	result := make([]uint64, max(len(a), len(b)))
	copy(result, a)
	for i := range b {
		result[i] = f(result[i], b[i])
	}
	return result
}
