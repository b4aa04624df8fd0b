package destination

import "pillion.dev/measure/histogram"

// state is what was last read of a flow, and what is owed to its rows. Histograms are not
// in it: the program begins them from zero when it hands them over.
type state struct {
	last   totals
	lastNs uint64 // when the last packet came, UTC
	// owed are losses that a row reported and that turned out to be late
	// arrivals: later rows pay them back.
	owed uint64
}

// totals are what a flow counted since it began.
type totals struct {
	Counts                       // but for Lost
	missing                int64 // expected packets that have not come
	delays, variations     uint64
	delaySum, variationSum int64
}

func totalsOf(f *destinationFlow) totals {
	w := &f.Window
	return totals{
		Counts: Counts{
			Packets: f.Packets, Bytes: f.Bytes, Expected: w.Expected, Duplicated: w.Duplicated,
			Reordered: w.Reordered, Late: w.Late, Unchecked: w.Unchecked, Restarts: w.Restarts,
		},
		missing: int64(w.Expected) - int64(w.Unique),
		delays:  f.Delays, delaySum: f.DelaySum,
		variations: f.Variations, variationSum: f.VariationSum,
	}
}

// change is what happened to a flow between two readings.
type change struct {
	Counts
	delay, variation distribution
}

func (c *change) add(other *change) {
	c.Counts.add(other.Counts)
	c.delay.add(&other.delay)
	c.variation.add(&other.variation)
}

// advance returns what is new in a flow, but for its pages outside of it.
func (s *state) advance(f *destinationFlow) *change {
	now, before := totalsOf(f), s.last
	c := &change{Counts: Counts{
		Packets: now.Packets - before.Packets, Bytes: now.Bytes - before.Bytes,
		Expected: now.Expected - before.Expected, Lost: s.settle(now.missing - before.missing),
		Duplicated: now.Duplicated - before.Duplicated, Reordered: now.Reordered - before.Reordered,
		Late: now.Late - before.Late, Unchecked: now.Unchecked - before.Unchecked, Restarts: now.Restarts - before.Restarts,
	}}
	s.last, s.lastNs = now, f.LastNs
	c.delay.moments(now.delays-before.delays, now.delaySum-before.delaySum, f.DelayMin, f.DelayMax)
	c.variation.moments(now.variations-before.variations, now.variationSum-before.variationSum, f.VariationMin, f.VariationMax)
	h := &f.Histograms
	for page := range h.DelaySlots {
		if slot := int(h.DelaySlots[page]) - 1; slot >= 0 && slot < len(h.DelayPages) {
			p := &h.DelayPages[slot]
			enterSums(&c.delay.Histogram, page, p.Counts[:], p.Offsets[:])
		}
		if slot := int(h.VariationSlots[page]) - 1; slot >= 0 && slot < len(h.VariationPages) {
			enterCounts(&c.variation.Histogram, page, h.VariationPages[slot].Counts[:])
		}
	}
	return c
}

// enterPage adds a page that was outside of its flow.
func (c *change) enterPage(page int, p *destinationPage) {
	if page < 2*sidePages {
		enterSums(&c.delay.Histogram, page, p.Counts[:], p.Offsets[:])
	} else {
		enterCounts(&c.variation.Histogram, page-2*sidePages, p.Counts[:])
	}
}

// pageSize and sidePages are those of bpf/histogram.h.
const (
	pageSize  = 32
	sidePages = (histogram.Side + pageSize - 1) / pageSize
)

// bucketBound is the lower bound of a bucket of a page.
func bucketBound(page, bucket int) int64 {
	return histogram.Bound((page-sidePages)*pageSize + bucket)
}

func enterCounts[C uint8 | uint32](h *histogram.Histogram, page int, counts []C) {
	for i, n := range counts {
		if n > 0 {
			h.AddBucket(bucketBound(page, i), uint64(n))
		}
	}
}

func enterSums[C uint8 | uint32, S uint32 | uint64](h *histogram.Histogram, page int, counts []C, offsets []S) {
	for i, n := range counts {
		if n > 0 {
			h.AddSum(bucketBound(page, i), uint64(n), uint64(offsets[i]))
		}
	}
}

// settle turns a signed change into what a row may say, so that rows add up.
func (s *state) settle(change int64) uint64 {
	if change < 0 {
		s.owed += uint64(-change)
		return 0
	}
	paid := min(s.owed, uint64(change))
	s.owed -= paid
	return uint64(change) - paid
}
