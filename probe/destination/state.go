package destination

// state is what was read of a flow the last time, and what is owed to its rows.
type state struct {
	last destinationFlow
	// owed are losses that a row reported and that turned out to be late
	// arrivals: later rows pay them back.
	owed uint64
}

// change is what happened to a flow between two readings.
type change struct {
	Counts
	delay, variation distribution
}

func newChange() *change {
	return &change{delay: newDistribution(fine), variation: newDistribution(coarse)}
}

func (c *change) add(other *change) {
	c.Counts.add(other.Counts)
	c.delay.add(&other.delay)
	c.variation.add(&other.variation)
}

// advance returns what is new in now. tag is the epoch that ended, plus one.
func (s *state) advance(now *destinationFlow, tag uint64) *change {
	c := newChange()
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
	for i := range c.delay.positive {
		c.delay.positive[i] = now.DelayFine[i].Count - before.DelayFine[i].Count
		c.delay.offsets[i] = now.DelayFine[i].Offsets - before.DelayFine[i].Offsets
	}
	subtract(c.delay.negative, now.DelayNegative[:], before.DelayNegative[:])
	c.variation.count = now.Variations - before.Variations
	c.variation.sum = now.VariationSum - before.VariationSum
	subtract(c.variation.positive, now.VariationPositive[:], before.VariationPositive[:])
	subtract(c.variation.negative, now.VariationNegative[:], before.VariationNegative[:])

	x := extremesOf(now, tag)
	c.delay.min, c.delay.max = bounded(&c.delay, x.DelayMin, x.DelayMax, x.Epoch == tag)
	c.variation.min, c.variation.max = bounded(&c.variation, x.VariationMin, x.VariationMax, x.Epoch == tag)
	s.last = *now
	return c
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

func extremesOf(f *destinationFlow, tag uint64) destinationExtremes {
	return f.Extremes[tag&1]
}

// bounded falls back on the histogram where a sample slipped over the edge of the
// interval after its extremes were read.
func bounded(d *distribution, low, high int64, known bool) (int64, int64) {
	if d.count == 0 {
		return 0, 0
	}
	if known && low <= high {
		return low, high
	}
	low, high = 1<<62, -1<<62
	for i, n := range d.positive {
		if n != 0 {
			low, high = min(low, d.edges.middle(i)), max(high, d.edges.middle(i))
		}
	}
	for i, n := range d.negative {
		if n != 0 {
			low, high = min(low, -coarse.middle(i)), max(high, -coarse.middle(i))
		}
	}
	return low, high
}

func subtract(to, now, before []uint32) {
	for i := range to {
		to[i] = now[i] - before[i] // modulo 2^32, as the program counts
	}
}
