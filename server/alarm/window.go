package alarm

import "time"

// slots is the number of slots of a window.
const slots = 10

// slot sums the rows whose intervals end in one slot of time.
type slot struct {
	number     int64 // slots since 1970
	bad, total uint64
	most       int64 // largest delay, ns
}

// window sums packets over the last part of the rows of a pair: all and bad ones, which are lost, or later than
// a delay.
type window struct {
	// slots is a ring, by number.
	slots [slots]slot
	// newest is the latest time of a row; span the length of the window: the rule's,
	// or the interval of a row if that is longer.
	newest time.Time
	span   time.Duration
	// lastRow is when the last row arrived.
	lastRow time.Time
}

// move makes room for a row that ends at a time. old: the row is older than the window and is not used; reset: it is,
// and the window now begins with it.
func (w *window) move(at, now time.Time, over, interval time.Duration) (end time.Time, old, reset bool) {
	if at.After(now.Add(aheadMost)) {
		at = now // a wrong clock; this time would hide all later rows
	}
	// Old rows arrive after an agent was disconnected or a clock was set back. They must
	// not be mixed with current rows, but are evaluated if there are no others.
	if at.Before(w.newest.Add(-over)) {
		if now.Sub(w.lastRow) < over {
			return at, true, false
		}
		w.slots, w.newest, reset = [slots]slot{}, at, true
	}
	w.span = max(over, interval)
	if at.After(w.newest) {
		w.newest = at
	}
	w.lastRow = now
	return at, false, reset
}

// add counts packets at a time that move returned.
func (w *window) add(at time.Time, over time.Duration, bad, total uint64, most int64) {
	put(w.slots[:], at.UnixNano()/int64(over/slots), bad, total, most)
}

// put counts packets in the slot of a ring with that number.
func put(ring []slot, number int64, bad, total uint64, most int64) {
	n := int64(len(ring))
	s := &ring[(number%n+n)%n]
	if s.number != number {
		*s = slot{number: number}
	}
	s.bad, s.total, s.most = s.bad+bad, s.total+total, max(s.most, most)
}

// sums returns the sums of the window that ends with the newest row.
func (w *window) sums(over time.Duration) (sum slot) {
	last := w.newest.UnixNano() / int64(over/slots)
	for _, s := range w.slots {
		if s.number > last-slots && s.number <= last {
			sum.bad, sum.total, sum.most = sum.bad+s.bad, sum.total+s.total, max(sum.most, s.most)
		}
	}
	return sum
}
