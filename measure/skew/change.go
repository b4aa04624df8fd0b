package skew

import (
	"cmp"
	"math"
	"slices"
)

const (
	// groupSize is how many pending points of each direction show a change together.
	groupSize = 5
	// changeLeast is the least change that is told from noise, ns.
	changeLeast = 30_000
	// noiseFactor is how many times the noise of the minima a change must exceed.
	noiseFactor = 6
	// refitPoints is after how many confirmed points the line is computed again.
	refitPoints = 10
	// groups is how many groups before a change, and at most after it, are compared.
	groups = 8
	// awaitTime is how long points of one direction wait for points of the other, s.
	awaitTime = 20
)

// confirm moves pending points that agree with the line to the confirmed ones, in the order of time. The latest
// groupSize of each direction stay pending, and those that have time in common with the first of these.
//
// A change of a clock moves the delays of both directions by the same amount in opposite directions; a
// change of the path or a queue moves their sum.
func (e *Estimator) confirm() {
	e.applyReported()
	for {
		next := e.next()
		if next == nil {
			return
		}
		x, late := next.pending[0].x, e.stale >= refitPoints
		if late || !e.known && e.stale > 0 {
			e.refit()
		}
		if e.known && e.last.both && e.restarted(x, late) {
			continue
		}
		next.confirmed = slices.Insert(next.confirmed, later(next.confirmed, next.pending[0].x), next.pending[0])
		next.pending = slices.Delete(next.pending, 0, 1)
		if len(next.confirmed) > pointsMost {
			next.confirmed = slices.Delete(next.confirmed, 0, 1)
		}
		e.stale++
	}
}

// restarted begins a segment if a clock has changed at about x, or, if late, somewhat earlier: more points show what queues
// hid before.
func (e *Estimator) restarted(x float64, late bool) bool {
	splits := []float64{x}
	if late {
		confirmed := e.sides[Forward].confirmed
		for n := len(confirmed) - groupSize; n > 0 && len(splits) <= groups; n -= groupSize {
			splits = append(splits, confirmed[n].x)
		}
	}
	for _, split := range splits {
		if shown, changed := e.changed(split); changed {
			e.restarts++
			e.reset(shown + e.interval)
			e.shownAt = shown
			return true
		}
	}
	return false
}

// next is the direction with the earliest pending point, or nil if this cannot be confirmed yet: enough later ones of
// both directions, or of the only one, must show whether a clock has changed.
func (e *Estimator) next() *side {
	var next *side
	for i := range e.sides {
		if s := &e.sides[i]; len(s.pending) > 0 && (next == nil || s.pending[0].x < next.pending[0].x) {
			next = s
		}
	}
	if next == nil {
		return nil
	}
	x := next.pending[0].x
	if e.awaits(x) {
		return nil
	}
	newest, _ := e.newest()
	for i := range e.sides {
		s := &e.sides[i]
		if s == next || len(s.pending)+len(s.confirmed) > 0 {
			if len(e.after(s, x)) < groupSize && (s == next || newest < x+awaitTime+groupSize*e.interval) {
				return nil
			}
		}
	}
	return next
}

// after are the pending points whose intervals do not overlap the interval of a point at x: minima of an interval in
// which a clock was set may be of either offset.
func (e *Estimator) after(s *side, x float64) []vertex {
	return s.pending[later(s.pending, x+e.interval):]
}

// changed reports whether the points of both directions before and after x differ in opposite directions, relative
// to the line, and since when: the first point of the direction that became shorter, which no queue causes.
func (e *Estimator) changed(x float64) (since float64, yes bool) {
	var shift, noise [2]float64
	for d := range e.sides {
		s := &e.sides[d]
		before, after := s.around(x, e.interval)
		if len(before) < groupSize || len(after) < groupSize {
			return 0, false
		}
		floor, spread := floorOf(e.above(d, before))
		shift[d] = slices.Min(e.above(d, after)) - floor
		// The line is the less certain the farther it is extended.
		noise[d] = spread * max(1, (after[len(after)-1].x-before[0].x)/max(e.last.to-e.last.from, spanLeast))
	}
	clock, path := (shift[Forward]-shift[Backward])/2, (shift[Forward]+shift[Backward])/2
	least := max(changeLeast, noiseFactor*max(noise[0], noise[1]))
	if math.Abs(clock) <= least || math.Abs(path) >= math.Abs(clock)/2 {
		return 0, false
	}
	if since = e.shown(x-e.interval, clock); math.IsInf(since, 1) {
		since = x + e.interval
	}
	return since, true
}

// around are the latest points before x, and the first ones whose intervals do not overlap the interval of a point at x.
func (s *side) around(x, interval float64) (before, after []vertex) {
	all := slices.Concat(s.confirmed[max(0, len(s.confirmed)-4*groups*groupSize):], s.pending)
	first, _ := slices.BinarySearchFunc(all, x, func(v vertex, x float64) int { return cmp.Compare(v.x, x) })
	rest := all[later(all, x+interval):]
	return all[max(0, first-groups*groupSize):first], rest[:min(len(rest), groups*groupSize)]
}

// floorOf is the least of some values, and by how much the least of a group of them exceeds it: typically or, if that
// is more, half of the most. Of few groups it is by how much half of the values do.
func floorOf(values []float64) (floor, spread float64) {
	var least []float64
	for group := range slices.Chunk(values, groupSize) {
		least = append(least, slices.Min(group))
	}
	slices.Sort(least)
	if floor = least[0]; len(least) > groups/2 {
		return floor, max(least[len(least)/2], (floor+least[len(least)-1])/2) - floor
	}
	slices.Sort(values)
	return floor, values[len(values)/2] - floor
}

// above is how far points are above the line, ns.
func (e *Estimator) above(d int, points []vertex) []float64 {
	list := make([]float64, len(points))
	for i, p := range points {
		offset := e.last.y(p.x)
		if Direction(d) == Backward {
			offset = -e.last.y(p.x + offset/1e9)
		}
		list[i] = p.y - offset
	}
	return list
}
