package skew

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// windowTime is how long points are kept, s.
	windowTime = 600
	// pointsMost bounds the points of a direction.
	pointsMost = 4096
	// delayMost is the greatest absolute delay of a point: beyond it the clocks do not merely differ.
	delayMost = int64(24 * time.Hour)
	// apartMost is how far points may be from the latest ones before they count as from another
	// time: the sender's clock is wrong.
	apartMost = 3600
)

// Estimator estimates the offset between two clocks. The zero value is ready. It is not safe for
// concurrent use.
type Estimator struct {
	origin time.Time
	// points of each direction by x: confirmed ones, on which the estimate rests, and pending
	// ones, which may belong to a new segment.
	sides    [2]side
	interval float64 // the longest of the segment, s
	least    float64 // start of the segment
	last     fitted
	known    bool
	stale    int     // points confirmed since last was computed
	begin    float64 // start of the segment
	shownAt  float64 // of a step: the first point that shows it
	restarts int
	// reported steps, of which not all points have come that may show them, in the order of time.
	reported []step
}

type side struct {
	confirmed, pending []vertex
}

// Restarts is the number of segments that began because the points did not fit one line any more.
func (e *Estimator) Restarts() int { return e.restarts }

// Add takes a point. Points may come in any order within the window.
func (e *Estimator) Add(d Direction, p Point) {
	if d != Forward && d != Backward || p.MinNs > delayMost || p.MinNs < -delayMost || p.Interval < 0 || p.Interval > time.Hour {
		return
	}
	if e.origin.IsZero() {
		e.origin = p.At
		e.least, e.shownAt = math.Inf(-1), math.Inf(1)
	}
	x := p.At.Sub(e.origin).Seconds()
	s := &e.sides[d]
	if newest, any := e.newest(); any && (x > newest+apartMost || x < newest-windowTime) {
		if x < newest {
			return
		}
		e.reset(math.Inf(-1))
		e.reported = nil
	}
	if x < e.least || len(s.pending) >= pointsMost {
		return
	}
	e.interval = max(e.interval, p.Interval.Seconds())
	s.pending = slices.Insert(s.pending, later(s.pending, x), vertex{x, float64(p.MinNs)})
}

// newest is the latest x.
func (e *Estimator) newest() (x float64, any bool) {
	x = math.Inf(-1)
	for i := range e.sides {
		for _, list := range [][]vertex{e.sides[i].confirmed, e.sides[i].pending} {
			if n := len(list); n > 0 {
				x, any = max(x, list[n-1].x), true
			}
		}
	}
	return x, any
}

// reset drops all points before x.
func (e *Estimator) reset(x float64) {
	for i := range e.sides {
		s := &e.sides[i]
		all := merged(s.confirmed, s.pending)
		*s = side{pending: slices.DeleteFunc(all, func(v vertex) bool { return v.x < x })}
	}
	e.least, e.known, e.last, e.stale, e.shownAt = x, false, fitted{}, 0, math.Inf(1)
}

// Estimate confirms points that fit and returns the estimate of all confirmed ones. ok is false while there are too few.
func (e *Estimator) Estimate() (estimate Estimate, ok bool) {
	e.confirm()
	if e.stale > 0 || !e.known {
		e.refit()
	}
	if !e.known {
		return estimate, false
	}
	f := &e.last
	at := func(x float64) time.Time { return e.origin.Add(time.Duration(math.Round(x * 1e9))) }
	return Estimate{
		Segment: at(e.begin), Since: at(f.from), Until: at(f.to), OffsetNs: f.y(f.to), SkewPPB: f.slope,
		OffsetBoundNs: f.bound, SkewBoundPPB: f.skewBound, DriftNs: f.ease, Points: f.points, Both: f.both,
	}, true
}

// refit computes the estimate of the confirmed points; if they fit no line, a segment begins with the
// pending ones.
func (e *Estimator) refit() {
	e.forget()
	f, ok, infeasible := fit(e.sides[Forward].confirmed, e.sides[Backward].confirmed, e.interval, e.last.line)
	switch {
	case ok && !e.known:
		e.begin = min(f.from, e.shownAt)
	case ok && !f.both && !e.last.both: // the unknown offset is still the one at the segment's start
		f.at += e.last.y(f.from)
	}
	e.last, e.known, e.stale = f, ok, 0
	if infeasible {
		e.restarts++
		for i := range e.sides {
			e.sides[i].confirmed = nil
		}
		e.reset(math.Inf(-1))
	}
}

// forget drops points that have left the window.
func (e *Estimator) forget() {
	newest, _ := e.newest()
	for i := range e.sides {
		s := &e.sides[i]
		old := 0
		for old < len(s.confirmed) && s.confirmed[old].x < newest-windowTime {
			old++
		}
		s.confirmed = slices.Delete(s.confirmed, 0, old)
	}
}

func merged(a, b []vertex) []vertex {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(a, b vertex) int { return cmp.Compare(a.x, b.x) })
	return all
}
