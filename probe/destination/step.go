package destination

import (
	"time"

	"pillion.dev/probe/block"
)

// followStep brings the clock up to date before flows are read. If it was stepped since the last
// reading, what has come since was measured by two clocks: Read leaves its delays out, and counts
// them. When flows were last used is put on the new clock, and no block across the step has figures.
func (d *Destination) followStep() error {
	if err := d.FollowClock(); err != nil {
		return err
	}
	by, stepped := d.clock.Step()
	if !stepped {
		return nil
	}
	d.stepped = true // until a reading succeeds
	for _, s := range d.flows {
		s.lastNs += uint64(by)
		s.stepped = true
	}
	d.restartBlocks(d.blocks.period)
	return nil
}

// leaveOut removes from a change what a step of the clock makes wrong: the delays of the reading that
// found it, and the first change of delay afterwards, from a packet before the step.
func (d *Destination) leaveOut(s *state, c *change) {
	switch {
	case d.stepped:
		d.delaysLeftOut += c.delay.count
		c.delay, c.variation = distribution{}, distribution{}
		s.stepped, s.lastNs = true, uint64(d.clock.Now().UnixNano())
	case s.stepped && c.variation.count > 0:
		c.variation = distribution{}
		s.stepped = false
	}
}

// restartBlocks begins to count blocks of a length. What was counted before has no figures.
func (d *Destination) restartBlocks(period time.Duration) {
	before := d.blocks
	d.blocks = newBlocks(d.settings)
	d.blocks.period, d.blocks.unsettled, d.blocks.missed, d.blocks.news = period, before.unsettled, before.missed, before.news
	d.blocks.first = block.Of(d.clock.Now(), period) + 1
	for i := range before.reports {
		d.blocks.unsettled += before.reports[i].Packets
	}
}
