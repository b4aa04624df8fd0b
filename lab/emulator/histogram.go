package emulator

import (
	"math"
	"math/bits"
)

// Values below 2^(precisionBits+1) have a bucket each, larger ones share a
// bucket with values that differ by less than 1/2^precisionBits, 0.1 %.
const (
	precisionBits = 10
	octaveSize    = 1 << precisionBits
	octaves       = 64 - precisionBits
)

// histogram counts times in ns in logarithmic buckets. Memory grows with the
// number of octaves in use, 8 kB each.
type histogram struct {
	octave   [octaves]*[octaveSize]uint64
	count    uint64
	sum      int64
	min, max int64
}

func (h *histogram) add(value int64) {
	value = max(value, 0)
	if h.count == 0 || value < h.min {
		h.min = value
	}
	h.max = max(h.max, value)
	h.count++
	h.sum += value
	o, slot := bucket(uint64(value))
	if h.octave[o] == nil {
		h.octave[o] = new([octaveSize]uint64)
	}
	h.octave[o][slot]++
}

// merge adds what other counted.
func (h *histogram) merge(other *histogram) {
	if other.count == 0 {
		return
	}
	if h.count == 0 || other.min < h.min {
		h.min = other.min
	}
	h.max = max(h.max, other.max)
	h.count += other.count
	h.sum += other.sum
	for o, counts := range other.octave {
		if counts == nil {
			continue
		}
		if h.octave[o] == nil {
			h.octave[o] = new([octaveSize]uint64)
		}
		for slot, n := range counts {
			h.octave[o][slot] += n
		}
	}
}

// clone copies the counts, so that they can be read while h changes.
func (h *histogram) clone() *histogram {
	fresh := new(histogram)
	fresh.merge(h)
	return fresh
}

// quantile returns the nearest-rank quantile to half a bucket; 0 if there are no
// values.
func (h *histogram) quantile(q float64) int64 {
	rank := max(1, uint64(math.Ceil(q*float64(h.count))))
	if rank >= h.count {
		return h.max
	}
	var seen uint64
	for o, counts := range h.octave {
		if counts == nil {
			continue
		}
		for slot, n := range counts {
			if seen += n; n > 0 && seen >= rank {
				return min(max(middle(o, slot), h.min), h.max)
			}
		}
	}
	return 0
}

// bucket finds the octave of a value and the slot in it. Octave 0 is linear.
func bucket(value uint64) (octave, slot int) {
	octave = max(0, bits.Len64(value)-precisionBits)
	if octave == 0 {
		return 0, int(value)
	}
	octave--
	return octave + 1, int(value>>octave) - octaveSize
}

// middle is the value in the middle of a bucket.
func middle(octave, slot int) int64 {
	if octave == 0 {
		return int64(slot)
	}
	width := int64(1) << (octave - 1)
	return int64(octaveSize+slot)*width + (width-1)/2
}
