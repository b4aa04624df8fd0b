package destination

import "bytes"

// state is what was last read of a flow, and what is owed to its rows.
type state struct {
	last  destinationFlow
	pages map[uint32]*destinationPage // last read of those outside the flow
	// owed are losses that a row reported and that turned out to be late
	// arrivals: later rows pay them back.
	owed uint64
	// group has the flow's change in the interval that ends with tag.
	group *change
	tag   uint64
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

// advance returns what is new in now. tag is the epoch that ended, plus one.
func (s *state) advance(now *destinationFlow, tag uint64) *change {
	c := &change{}
	before := &s.last
	c.Packets = now.Packets - before.Packets
	c.Bytes = now.Bytes - before.Bytes
	c.Expected = now.Window.Expected - before.Window.Expected
	c.Duplicated = now.Window.Duplicated - before.Window.Duplicated
	c.Reordered = now.Window.Reordered - before.Window.Reordered
	c.Late = now.Window.Late - before.Window.Late
	c.Restarts = now.Window.Restarts - before.Window.Restarts
	c.Lost = s.settle(missing(now) - missing(before))

	c.delay.count = now.Delays - before.Delays
	c.delay.sum = now.DelaySum - before.DelaySum
	c.variation.count = now.Variations - before.Variations
	c.variation.sum = now.VariationSum - before.VariationSum
	for page := range now.DelaySlots {
		if slot := int(now.DelaySlots[page]) - 1; slot >= 0 && slot < len(now.DelayPages) {
			p, q := &now.DelayPages[slot], &before.DelayPages[slot]
			c.delay.grow(page, &p.Counts, &q.Counts, &p.Offsets, &q.Offsets)
		}
		if slot := int(now.VariationSlots[page]) - 1; slot >= 0 && slot < len(now.VariationPages) {
			c.variation.grow(page, &now.VariationPages[slot], &before.VariationPages[slot], nil, nil)
		}
	}
	x := &now.Extremes[tag&1]
	c.delay.bound(x.DelayMin, x.DelayMax, x.Epoch == tag)
	c.variation.bound(x.VariationMin, x.VariationMax, x.Epoch == tag)
	s.last = *now
	return c
}

// spilled reports whether a flow has pages outside of it.
func spilled(f *destinationFlow) bool {
	return bytes.IndexByte(f.DelaySlots[:], uint8(len(f.DelayPages)+1)) >= 0 ||
		bytes.IndexByte(f.VariationSlots[:], uint8(len(f.VariationPages)+1)) >= 0
}

// advancePage adds what is new in a page outside of its flow to the change of the
// interval that ends with tag. A page of which the flow knows nothing yet waits for
// the next.
func (s *state) advancePage(page uint32, now *destinationPage, tag uint64) {
	if s.tag != tag {
		return
	}
	before := s.pages[page]
	if before == nil {
		if s.pages == nil {
			s.pages = map[uint32]*destinationPage{}
		}
		before = &destinationPage{}
		s.pages[page] = before
	}
	if page < 2*sidePages {
		s.group.delay.grow(int(page), &now.Counts, &before.Counts, &now.Offsets, &before.Offsets)
	} else {
		s.group.variation.grow(int(page)-2*sidePages, &now.Counts, &before.Counts, nil, nil)
	}
	*before = *now
}

// missing is how many expected packets have not come.
func missing(f *destinationFlow) int64 {
	return int64(f.Window.Expected) - int64(f.Window.Unique)
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
