package alarm

import (
	"time"

	"pillion.dev/measure/flows"
)

// slots is the number of slots of a window.
const slots = 10

// slot sums the rows whose intervals end in one slot of time.
type slot struct {
	number         int64 // slots since 1970
	lost, expected uint64
}

// pair is the window of one pair, and its ongoing loss.
type pair struct {
	key
	// slots is a ring, by number.
	slots [slots]slot
	// newest is the latest time of a row; span the length of the window: that of
	// the limit, or the interval of a row if that is longer.
	newest time.Time
	span   time.Duration
	// lastRow is when the last row arrived, lastTraffic when the last one with packets did.
	lastRow, lastTraffic time.Time

	// since is when the loss began, or zero. calm is when it fell below half of the
	// limit, or zero.
	since, calm time.Time
	worst       float64
	shown       bool // an event was raised

	// others: another server stored the last rows. taken is when this one began to, until it knows what was
	// raised before; orphan: nobody else ends the loss.
	others, orphan bool
	taken          time.Time
}

// forget makes it a pair without a loss.
func (p *pair) forget() { p.since, p.calm, p.worst, p.shown = time.Time{}, time.Time{}, 0, false }

// add adds a row and reports whether it was used.
func (p *pair) add(row *flows.Row, over time.Duration, now time.Time) bool {
	at := row.End
	if at.After(now.Add(aheadMost)) {
		at = now // a wrong clock; this time would hide all later rows
	}
	// Old rows arrive after an agent was disconnected or a clock was set back. They must
	// not be mixed with current rows, but are evaluated if there are no others.
	if at.Before(p.newest.Add(-over)) {
		if now.Sub(p.lastRow) < over {
			return false
		}
		p.slots, p.newest, p.calm = [slots]slot{}, at, time.Time{}
		if !p.since.IsZero() {
			p.since = at
		}
	}
	p.span = max(over, row.Interval)
	if at.After(p.newest) {
		p.newest = at
	}
	p.lastRow = now
	if row.Expected > 0 {
		p.lastTraffic = now
	}
	number := at.UnixNano() / int64(over/slots)
	s := &p.slots[((number%slots)+slots)%slots]
	if s.number != number {
		*s = slot{number: number}
	}
	s.lost += row.Lost
	s.expected += row.Expected
	return true
}

// sums returns the sums of the window that ends with the newest row.
func (p *pair) sums(over time.Duration) (lost, expected uint64) {
	last := p.newest.UnixNano() / int64(over/slots)
	for _, s := range p.slots {
		if s.number > last-slots && s.number <= last {
			lost, expected = lost+s.lost, expected+s.expected
		}
	}
	return lost, expected
}
