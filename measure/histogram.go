package measure

import (
	"math"
	"math/bits"
	"slices"
)

// histogram keeps the buckets that hold something, by their lower bounds.
type histogram struct {
	bounds []int64 // none for log-linear
	lower  []uint64
	counts []uint64
}

func (h *histogram) add(v Value) {
	bound := h.bucket(integer(v))
	i, found := slices.BinarySearchFunc(h.lower, bound, func(a uint64, b int64) int {
		switch {
		case int64(a) < b:
			return -1
		case int64(a) > b:
			return 1
		}
		return 0
	})
	if !found {
		h.lower = slices.Insert(h.lower, i, uint64(bound))
		h.counts = slices.Insert(h.counts, i, 0)
	}
	h.counts[i]++
}

func (h *histogram) emit(row Sample) (Sample, bool) {
	return append(row, Value{kind: Int64List, list: h.lower}, Uint64ListValue(h.counts)), false
}

func (h *histogram) reset() { h.lower, h.counts = h.lower[:0], h.counts[:0] }

// integer is the value rounded down, or the nearest int64.
func integer(v Value) int64 {
	switch v.kind {
	case Float64:
		x := math.Floor(v.Float64())
		switch {
		case x < -0x1p63:
			return math.MinInt64
		case x >= 0x1p63:
			return math.MaxInt64
		}
		return int64(x)
	case Uint64:
		return int64(min(v.number, math.MaxInt64))
	}
	return int64(v.number)
}

// bucket is the lower bound of the bucket that a value is in.
func (h *histogram) bucket(v int64) int64 {
	if len(h.bounds) == 0 {
		return logLinear(v)
	}
	i, found := slices.BinarySearch(h.bounds, v)
	switch {
	case found:
		return v
	case i == 0:
		return math.MinInt64
	}
	return h.bounds[i-1]
}

// logLinearBits: 2^5 buckets for each power of two.
const logLinearBits = 5

// logLinear cuts a value down to its 6 leading binary digits. Buckets below zero
// mirror those above.
func logLinear(v int64) int64 {
	if v < 0 {
		// A negative value is at the closed, lower end of its mirrored bucket.
		size := -uint64(v)
		drop := max(0, bits.Len64(size-1)-logLinearBits-1)
		size = ((size-1)>>drop + 1) << drop
		return int64(-size)
	}
	drop := max(0, bits.Len64(uint64(v))-logLinearBits-1)
	return v >> drop << drop
}
