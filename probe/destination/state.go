package destination

import (
	"time"

	"pillion.dev/measure/histogram"
)

// state is what was last read of a flow, and what its later rows have to correct. Histograms are not in it: the BPF
// program resets them when it hands them over.
type state struct {
	last   totals
	lastNs uint64 // when the last packet came, UTC
	// stepped: the clock was stepped after the last packet that had a delay.
	stepped bool
	// owed are losses that a row reported although the packets then arrived late: later rows report that many fewer
	// losses.
	owed uint64

	// What reports add: see settle.go.
	series   series // which the window is in
	lost     series // a later one of which nothing has arrived
	earlier  []series
	restarts uint64 // of the window
	unseen   uint64 // series that began and ended in the window between two readings
	counted  int64  // expected packets of the window
	past     int64  // expected packets of earlier series that the window does not count
	pending  pending
	read     totals    // as the program counts
	floor    totals    // with pending packets that are in rows already
	left     time.Time // when the flow left the table
	narrow   bool      // only the lower 16 bits of the window's numbers come from the source
}

// totals are what a flow counted since it began.
type totals struct {
	Counts                 // but for Lost
	unique                 uint64
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
		unique: w.Unique, delays: f.Delays, delaySum: f.DelaySum,
		variations: f.Variations, variationSum: f.VariationSum,
	}
}

// change is what happened to a flow between two readings.
type change struct {
	Counts
	announced        uint64 // of Lost: packets that only a report has told of
	delay, variation distribution
	states           States
}

func (c *change) add(other *change) {
	c.Counts.add(other.Counts)
	c.announced += other.announced
	c.delay.add(&other.delay)
	c.variation.add(&other.variation)
	c.states = c.states.add(other.states)
}

// advance returns what is new in a flow, but for its pages outside of it.
func (s *state) advance(f *destinationFlow) *change {
	before := s.last
	s.read = totalsOf(f)
	s.follow(&f.Window)
	c := s.difference()
	now := &s.last
	s.lastNs = f.LastNs
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

// difference returns the counts that rows do not have yet.
func (s *state) difference() *change {
	now, before := s.read, s.last
	now.Packets, now.Bytes = max(now.Packets, s.floor.Packets), max(now.Bytes, s.floor.Bytes)
	now.Unchecked, now.unique = max(now.Unchecked, s.floor.Unchecked), max(now.unique, s.floor.unique)
	expected := s.expected()
	now.Expected = max(uint64(max(expected, 0)), before.Expected) // rows cannot take it back
	s.last = now
	return &change{Counts: Counts{
		Packets: now.Packets - before.Packets, Bytes: now.Bytes - before.Bytes,
		Expected: now.Expected - before.Expected, Lost: s.settle(now.missing() - before.missing()),
		Duplicated: now.Duplicated - before.Duplicated, Reordered: now.Reordered - before.Reordered,
		Late: now.Late - before.Late, Unchecked: now.Unchecked - before.Unchecked, Restarts: now.Restarts - before.Restarts,
	}}
}

// missing are the expected packets that have not come.
func (t *totals) missing() int64 { return int64(t.Expected) - int64(t.unique) }

// enterPage adds a page that was outside of its flow.
func (c *change) enterPage(page int, p *destinationPage) {
	if page < 2*sidePages {
		enterSums(&c.delay.Histogram, page, p.Counts[:], p.Offsets[:])
	} else {
		enterCounts(&c.variation.Histogram, page-2*sidePages, p.Counts[:])
	}
}

// pageSize and sidePages are defined by bpf/histogram.h.
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

// settle turns a signed change of the losses into the number that a row reports, so that the sum of the rows is
// right.
func (s *state) settle(change int64) uint64 {
	if change < 0 {
		s.owed += uint64(-change)
		return 0
	}
	paid := min(s.owed, uint64(change))
	s.owed -= paid
	return uint64(change) - paid
}
