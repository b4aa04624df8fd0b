package sla

import (
	"cmp"
	"math"
	"slices"
	"time"

	"pillion.dev/api/level"
	"pillion.dev/archive"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

// blockLengths are tried from the longest: whole days hold the daily pattern, and depend least on each other.
var blockLengths = []time.Duration{24 * time.Hour, 6 * time.Hour, time.Hour}

// block sums the windows of an hour, or of several.
type block struct {
	expected, lost float64
	// delays counts the values of histograms, unknown the values whose clocks have no known error bound.
	delays, unknown float64
	// least and most count delays by the buckets of the least and of the largest value that the true delay can have.
	least, most map[int]float64
}

func newBlock() *block { return &block{least: map[int]float64{}, most: map[int]float64{}} }

// clockMost bounds what clock errors add, so that nothing overflows.
const clockMost = int64(1) << 60

func (b *block) add(w *archive.Window) {
	b.expected += float64(w.Expected)
	b.lost += float64(min(w.Lost, w.Expected))
	b.addDelays(&w.Delay, w.ClockError)
}

func (b *block) addDelays(d *flows.Distribution, clock flows.Bound) {
	h := &d.Histogram
	for i, bound := range h.Bounds {
		n := float64(h.Counts[i])
		b.delays += n
		if !clock.Known {
			b.unknown += n
			continue
		}
		low, high := max(bound, d.Min), min(bound+histogram.Width(histogram.Index(bound))-1, d.Max)
		if high < low { // of a histogram that does not fit its extremes
			low, high = bound, bound+histogram.Width(histogram.Index(bound))-1
		}
		e := max(0, min(clock.Ns, clockMost))
		b.least[histogram.Index(clamp(low)-e)] += n
		b.most[histogram.Index(clamp(high)+e)] += n
	}
}

func clamp(ns int64) int64 { return max(-clockMost, min(ns, clockMost)) }

func (b *block) merge(o *block) {
	b.expected += o.expected
	b.lost += o.lost
	b.delays += o.delays
	b.unknown += o.unknown
	for index, n := range o.least {
		b.least[index] += n
	}
	for index, n := range o.most {
		b.most[index] += n
	}
}

// above are the delays that are certainly, and those that are possibly, above a value.
func (b *block) above(ns int64) (certainly, possibly float64) {
	for index, n := range b.least {
		if histogram.Bound(index) > ns {
			certainly += n
		}
	}
	for index, n := range b.most {
		if top := histogram.Bound(index) + histogram.Width(index) - 1; top > ns {
			possibly += n
		}
	}
	return certainly, possibly + b.unknown
}

// grouped merges hours into the longest blocks of which enough have traffic, in the order of time, with empty ones for gaps.
func grouped(hours map[int64]*block) (blocks []*block, length time.Duration) {
	for _, length := range blockLengths {
		per := int64(length / time.Hour)
		of := map[int64]*block{}
		for hour, b := range hours {
			if of[hour/per] == nil {
				of[hour/per] = newBlock()
			}
			of[hour/per].merge(b)
		}
		if len(of) < level.BlocksLeast && length != blockLengths[len(blockLengths)-1] {
			continue
		}
		first, last := int64(math.MaxInt64), int64(math.MinInt64)
		for number := range of {
			first, last = min(first, number), max(last, number)
		}
		for number := first; number <= last; number++ {
			blocks = append(blocks, cmp.Or(of[number], &block{}))
		}
		return blocks, length
	}
	return nil, 0
}

// edges are the values of all buckets of blocks, ascending: between them nothing changes.
func edges(blocks []*block) []int64 {
	var all []int64
	for _, b := range blocks {
		for index := range b.least {
			all = append(all, histogram.Bound(index))
		}
		for index := range b.most {
			all = append(all, histogram.Bound(index)+histogram.Width(index)-1)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
