// Package histogram is Pillion's one histogram of signed nanoseconds: the layout of
// its buckets, histograms that merge exactly, and the quantile that every row, page
// and report prints.
//
// The BPF programs fill the same layout (probe/bpf/histogram.h); ui/data/histogram.ts
// and python/pillion/histogram.py read it. The vectors in testdata hold all four
// together. The package knows neither rows nor the network.
package histogram

import "math/bits"

// The layout, as in probe/bpf/histogram.h. Values from 0 to exactEnd-1 have a bucket
// each. From there each octave, which is a power of two up to the next, has
// 2^octaveBits buckets of equal width, so that a bucket is at most 1/32 (3.2 %) of its
// values wide. From 2^wideOctave (68.7 s) on, one bucket holds a whole octave. Negative
// values mirror the others by their one's complement: -1 is to 0 as -2 is to 1.
const (
	firstOctave = 6
	wideOctave  = 36
	octaveBits  = 5
	exactEnd    = 1 << firstOctave
	wideIndex   = exactEnd + (wideOctave-firstOctave)<<octaveBits

	// Side is the number of buckets of values from zero on; as many are below zero.
	// An index is from -Side to Side-1.
	Side = wideIndex + 63 - wideOctave
)

// Index is the number of the bucket that holds a value; it ascends with the value.
func Index(value int64) int {
	if value < 0 {
		return -1 - Index(^value)
	}
	octave := bits.Len64(uint64(value)) - 1
	switch {
	case value < exactEnd:
		return int(value)
	case octave >= wideOctave:
		return wideIndex + octave - wideOctave
	}
	place := value >> (octave - octaveBits) & (1<<octaveBits - 1)
	return exactEnd + (octave-firstOctave)<<octaveBits + int(place)
}

// Bound is the least value in the bucket of an index.
func Bound(index int) int64 {
	switch {
	case index < 0:
		mirror := -1 - index
		return -(Bound(mirror) + Width(mirror)) // of the last, -2^63 by overflow
	case index < exactEnd:
		return int64(index)
	case index >= wideIndex:
		return 1 << (wideOctave + index - wideIndex)
	}
	octave, place := (index-exactEnd)>>octaveBits, (index-exactEnd)&(1<<octaveBits-1)
	return int64(1<<octaveBits+place) << (octave + firstOctave - octaveBits)
}

// Width is how many values the bucket of an index holds.
func Width(index int) int64 {
	switch {
	case index < 0:
		return Width(-1 - index)
	case index < exactEnd:
		return 1
	case index >= wideIndex:
		return 1 << (wideOctave + index - wideIndex)
	}
	return 1 << ((index-exactEnd)>>octaveBits + firstOctave - octaveBits)
}
