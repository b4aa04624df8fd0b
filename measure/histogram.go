package measure

import (
	"math"
	"slices"

	"pillion.dev/measure/histogram"
)

// logLinear counts values in the buckets of package histogram.
type logLinear struct{ histogram.Histogram }

func (h *logLinear) add(v Value) { h.Add(integer(v)) }

func (h *logLinear) emit(row Sample) (Sample, bool) {
	return append(row, Int64ListValue(h.Bounds), Uint64ListValue(h.Counts)), false
}

func (h *logLinear) reset() { h.Reset() }

// bounded counts values in buckets that begin at given bounds; those below the first
// are under the least int64.
type bounded struct {
	bounds []int64
	counts []uint64 // of values below the first bound, then of each bucket
	lower  []uint64
	filled []uint64
}

func newBounded(bounds []int64) *bounded {
	return &bounded{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *bounded) add(v Value) {
	i, found := slices.BinarySearch(h.bounds, integer(v))
	if found {
		i++
	}
	h.counts[i]++
}

func (h *bounded) emit(row Sample) (Sample, bool) {
	h.lower, h.filled = h.lower[:0], h.filled[:0]
	least := int64(math.MinInt64)
	for i, n := range h.counts {
		if i > 0 {
			least = h.bounds[i-1]
		}
		if n > 0 {
			h.lower, h.filled = append(h.lower, uint64(least)), append(h.filled, n)
		}
	}
	return append(row, Value{kind: Int64List, list: h.lower}, Uint64ListValue(h.filled)), false
}

func (h *bounded) reset() { clear(h.counts) }

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
