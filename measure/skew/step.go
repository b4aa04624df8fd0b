package skew

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// reportedMost bounds the steps that wait for points.
const reportedMost = 16

// step is that a clock was set between two times, s, which changed the offset by ns; 0: its rate was changed.
type step struct{ after, before, ns float64 }

// Step begins a new segment: a clock was set between two times, by the clock of the forward destination, which changed the
// offset by ns; 0: its rate was changed. The segment begins with the first point that shows
// it, or at the latter time. It waits for points that have not come yet.
func (e *Estimator) Step(from, to time.Time, ns float64) {
	if e.origin.IsZero() {
		return
	}
	s := step{from.Sub(e.origin).Seconds(), to.Sub(e.origin).Seconds(), ns}
	if newest, any := e.newest(); any && s.before > newest+apartMost {
		return // the clock that tells when is wrong
	}
	if len(e.reported) == reportedMost {
		e.apply(e.reported[0])
		e.reported = e.reported[1:]
	}
	e.reported = append(e.reported, s)
	slices.SortStableFunc(e.reported, func(a, b step) int { return cmp.Compare(a.before, b.before) })
	e.applyReported()
}

// applyReported begins the segments of the steps whose points have come.
func (e *Estimator) applyReported() {
	for len(e.reported) > 0 && e.shows(e.reported[0]) {
		s := e.reported[0]
		e.reported = slices.Delete(e.reported, 0, 1)
		e.apply(s)
	}
}

// awaits reports whether a point at x may be of after a step that is not applied yet.
func (e *Estimator) awaits(x float64) bool {
	return len(e.reported) > 0 && x > e.reported[0].after-e.interval
}

// shows reports whether the points that show a step have come, or will not.
func (e *Estimator) shows(s step) bool {
	newest, _ := e.newest()
	if s.ns == 0 || !e.known || newest >= s.before+awaitTime+e.interval {
		return true
	}
	d, _ := e.shorter(s.ns)
	side := &e.sides[d]
	n := len(side.pending)
	return n > 0 && side.pending[n-1].x >= s.before+e.interval
}

// apply begins a segment.
func (e *Estimator) apply(s step) {
	if e.shownAt > s.after-e.interval && e.shownAt <= s.before+e.interval {
		return // it has shown already
	}
	// An interval in which the clock was set has minima of both offsets.
	shown := min(s.before, e.shown(s.after-e.interval/2, s.ns))
	e.reset(shown + e.interval)
	e.shownAt = shown
}

// shorter is the direction in which a step makes delays shorter, with the sign 1; the other one with -1 if only that has points.
func (e *Estimator) shorter(ns float64) (d Direction, sign float64) {
	d = Forward
	if ns > 0 {
		d = Backward
	}
	if s := &e.sides[d]; len(s.confirmed)+len(s.pending) == 0 {
		return 1 - d, -1
	}
	return d, 1
}

// shown is the x of the first point after another that shows a step, infinite if there is none: in
// one of the directions delays became shorter, which no queue causes.
func (e *Estimator) shown(after, ns float64) float64 {
	d, sign := e.shorter(ns)
	all := merged(e.sides[d].confirmed, e.sides[d].pending)
	cut, _ := slices.BinarySearchFunc(all, after, func(v vertex, x float64) int { return cmp.Compare(v.x, x) })
	if ns == 0 || !e.known || cut == 0 {
		return math.Inf(1)
	}
	above := e.above(int(d), all)
	floor := slices.Min(above[:cut])
	for i := cut; i < len(all); i++ {
		if sign*(above[i]-floor) < -math.Abs(ns)/2 {
			return all[i].x
		}
	}
	return math.Inf(1)
}
