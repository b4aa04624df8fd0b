package histogram

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Histogram counts values by bucket. It has the form in which rows carry it: parallel
// lists of the buckets that are not empty. The zero value is an empty histogram.
type Histogram struct {
	Bounds []int64  // lower bounds of buckets of the layout, ascending
	Counts []uint64 // values in each
	// Offsets are the sums of value minus lower bound over the values of each bucket.
	// They are nil if the sums are unknown; the values of a bucket then count as evenly spread.
	Offsets []uint64
}

// ErrLists marks lists that are not a histogram.
var ErrLists = errors.New("bad histogram")

// Validate returns an error (ErrLists) if lists that another program wrote are not a histogram.
func (h *Histogram) Validate() error {
	if len(h.Counts) != len(h.Bounds) || h.Offsets != nil && len(h.Offsets) != len(h.Bounds) {
		return fmt.Errorf("%w: %d bounds, %d counts and %d offsets", ErrLists, len(h.Bounds), len(h.Counts), len(h.Offsets))
	}
	for i, bound := range h.Bounds {
		if i > 0 && bound <= h.Bounds[i-1] {
			return fmt.Errorf("%w: bound %d after %d", ErrLists, bound, h.Bounds[i-1])
		}
	}
	return nil
}

// Empty reports whether there is no value.
func (h *Histogram) Empty() bool { return len(h.Bounds) == 0 }

// Reset removes all values and keeps the memory.
func (h *Histogram) Reset() {
	h.Bounds, h.Counts, h.Offsets = h.Bounds[:0], h.Counts[:0], h.Offsets[:0]
}

// Total is the number of values, at most the largest uint64.
func (h *Histogram) Total() (total uint64) {
	for _, n := range h.Counts {
		total = Sum(total, n)
	}
	return total
}

// Add counts one value.
func (h *Histogram) Add(value int64) {
	bound := Bound(Index(value))
	h.add(0, bound, 1, uint64(value-bound), true)
}

// AddBucket counts n values from the bucket that begins at bound. Their sum is unknown, so that the
// histogram loses its offsets.
func (h *Histogram) AddBucket(bound int64, n uint64) { h.add(0, bound, n, 0, false) }

// AddSum counts n values from the bucket that begins at bound, whose distances from it
// add up to offsets.
func (h *Histogram) AddSum(bound int64, n, offsets uint64) { h.add(0, bound, n, offsets, true) }

// Merge counts all values of other, whose lists must be equally long. The result does
// not depend on the order in which histograms are merged. Counts stop at the largest
// uint64; offsets that would exceed it become unknown.
func (h *Histogram) Merge(other *Histogram) {
	from := 0
	for i, bound := range other.Bounds {
		if from > 0 && bound <= h.Bounds[from-1] { // other does not ascend
			from = 0
		}
		if other.Offsets == nil {
			from = h.add(from, bound, other.Counts[i], 0, false)
		} else {
			from = h.add(from, bound, other.Counts[i], other.Offsets[i], true)
		}
	}
}

// Since returns the values that h has counted after the earlier state before.
func (h *Histogram) Since(before *Histogram) (counted Histogram) {
	from, j, known := 0, 0, h.Offsets != nil && (before.Offsets != nil || before.Empty())
	for i, bound := range h.Bounds {
		n, offsets := h.Counts[i], uint64(0)
		if known {
			offsets = h.Offsets[i]
		}
		if j < len(before.Bounds) && before.Bounds[j] == bound {
			n -= before.Counts[j]
			if known {
				offsets -= before.Offsets[j]
			}
			j++
		}
		from = counted.add(from, bound, n, offsets, known)
	}
	return counted
}

// add counts n values in a bucket, which it searches from the index from on, and returns the index behind
// it. Merge and Since add buckets in ascending order, so that the bucket is mostly at that index.
func (h *Histogram) add(from int, bound int64, n, offsets uint64, known bool) int {
	if n == 0 {
		return from
	}
	i, found := from, from < len(h.Bounds) && h.Bounds[from] == bound
	if !found {
		if floor := Bound(Index(bound)); floor != bound {
			bound, from, known = floor, 0, false // the bound is from another layout
		}
	}
	switch {
	case !known:
		h.Offsets = nil
	case len(h.Bounds) == 0 && h.Offsets == nil:
		h.Offsets = []uint64{}
	}
	if !found {
		i = h.place(from, bound)
	}
	h.Counts[i] = Sum(h.Counts[i], n)
	if h.Offsets != nil {
		sum, carry := bits.Add64(h.Offsets[i], offsets, 0)
		if h.Offsets[i] = sum; carry != 0 {
			h.Offsets = nil
		}
	}
	return i + 1
}

// place is the index of the bucket of a bound, searched from an index on; a missing bucket is inserted, empty.
func (h *Histogram) place(from int, bound int64) int {
	i, found := slices.BinarySearch(h.Bounds[from:], bound)
	i += from
	if !found {
		h.Bounds, h.Counts = slices.Insert(h.Bounds, i, bound), slices.Insert(h.Counts, i, 0)
		if h.Offsets != nil {
			h.Offsets = slices.Insert(h.Offsets, i, 0)
		}
	}
	return i
}

// Sum of two counts, at most the largest uint64.
func Sum(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}

// partsMost is the maximum number of distinct values by which Shift represents the values of one bucket.
const partsMost = 16

// Shift returns the histogram of all values minus ns. The values of a bucket are assumed to be spread evenly around
// their mean, as by Quantile. least and most are the extremes of the values, ns.
func (h *Histogram) Shift(ns, least, most int64) (shifted Histogram) {
	for i, n := range h.Counts {
		low, high, mean := h.bucket(i, float64(least), float64(most))
		half := max(0, min(mean-low, high-mean))
		parts := min(n, partsMost)
		for part := range parts {
			count := n / parts
			if part < n%parts {
				count++
			}
			place := mean + (2*(float64(part)+0.5)/float64(parts)-1)*half
			value := most // float64(most) may be beyond an int64
			if place < float64(most) {
				value = max(least, int64(math.Floor(place)))
			}
			value = Minus(value, ns)
			bound := Bound(Index(value))
			carry, offsets := bits.Mul64(count, uint64(value-bound))
			shifted.add(0, bound, count, offsets, carry == 0)
		}
	}
	return shifted
}

// Minus returns a - b, or the nearest extreme of an int64 if that overflows.
func Minus(a, b int64) int64 {
	d := a - b
	if (a < 0) != (b < 0) && (d < 0) != (a < 0) {
		if a < 0 {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	return d
}

// Quantile is the value of rank ceil(q * total), at least the first, between the exact
// extremes, which are infinite where unknown; NaN of an empty histogram. Within its
// bucket a value is placed as if the values there were spread evenly around their
// mean, as far as the bucket and the extremes allow. So the error is at most the
// bucket's width: none below 64 ns, 3.2 % of the value up to 68.7 s.
//
// Go, TypeScript and Python return the same bits: the conversion of the product keeps
// a compiler from fusing it with the sum.
func (h *Histogram) Quantile(q, least, most float64) float64 {
	total := 0.0
	for _, n := range h.Counts {
		total += float64(n)
	}
	if total == 0 {
		return math.NaN()
	}
	rank, below := max(1, math.Ceil(q*total)), 0.0
	for i, n := range h.Counts {
		count := float64(n)
		if below+count < rank {
			below += count
			continue
		}
		share := (rank - below - 0.5) / count
		low, high, mean := h.bucket(i, least, most)
		half := min(mean-low, high-mean)
		value := math.Floor(mean + float64((2*share-1)*half))
		return max(least, min(most, value))
	}
	return most
}

// bucket is the range of a bucket's values within the extremes, and their mean. An
// integer stands for the range up to the next.
func (h *Histogram) bucket(i int, least, most float64) (low, high, mean float64) {
	bound := float64(h.Bounds[i])
	low = max(bound, least)
	high = min(bound+float64(Width(Index(h.Bounds[i]))), most+1)
	if h.Offsets == nil {
		return low, high, (low + high) / 2
	}
	mean = bound + float64(h.Offsets[i])/float64(h.Counts[i]) + 0.5
	return low, high, max(low, min(high, mean))
}
