package skew

import "math"

// fitted is a line with what is known of its error.
type fitted struct {
	line
	both                   bool
	from, to               float64 // extremes of x
	bound, skewBound, ease float64
	points                 int
}

// spanLeast is how many seconds points must span.
const spanLeast = 5

// timing is the error of a delay that the probes read, ns: a bound in one direction only cannot be better.
const timing = 1000

// fit estimates from points of both directions in the order of x; backward has the times of the
// forward source's clock. before is an earlier fit or the zero line. ok is false if there are too few points, or no
// line is possible; then infeasible is set.
func fit(forward, backward []vertex, interval float64, before line) (f fitted, ok, infeasible bool) {
	if len(forward) == 0 || len(backward) == 0 {
		return fitOne(forward, backward, interval)
	}
	if before == (line{}) {
		before.at = (forward[0].y - backward[0].y) / 2
	}
	ahead := lowerHull(nil, forward)
	aligned := make([]vertex, len(backward))
	var back []vertex
	var c *corridor
	for range 2 { // the second time with a better alignment of the two clocks
		for i, p := range backward {
			aligned[i] = vertex{p.x + before.y(p.x)/1e9, p.y}
		}
		back = lowerHull(back, aligned)
		c = newCorridor(ahead, back)
		before, _ = c.widest()
	}
	f = fitted{line: before, both: true, points: len(forward) + len(backward)}
	f.from = min(forward[0].x, aligned[0].x)
	f.to = max(forward[len(forward)-1].x, aligned[len(aligned)-1].x)
	if min(span(forward), span(aligned)) < spanLeast {
		return f, false, false
	}
	// A minimum may have been anywhere in its interval, meanwhile the offset drifts.
	f.ease = math.Abs(f.slope) * interval / 2
	least, most, ok := c.slopeRange(f.ease)
	if !ok {
		return f, false, true
	}
	for range 2 {
		f.ease = max(math.Abs(least), math.Abs(most)) * interval / 2
		least, most, _ = c.slopeRange(f.ease)
	}
	f.line = c.typicalLine(forward, aligned, least, most)
	f.skewBound = max(most-f.slope, f.slope-least)
	for _, x := range []float64{f.from, f.to} { // convex in between
		high, low := c.extremes(x, least, most)
		f.bound = max(f.bound, high-f.y(x)+f.ease, f.y(x)-low+f.ease)
	}
	f.bound++ // rounding
	f.ease = math.Abs(f.slope) * interval / 2
	return f, true, false
}

// fitOne estimates the drift from one direction: the line below all points that is closest to them.
func fitOne(forward, backward []vertex, interval float64) (f fitted, ok, infeasible bool) {
	points, sign := forward, 1.0
	if len(points) == 0 {
		points, sign = backward, -1
	}
	if len(points) == 0 || span(points) < spanLeast {
		return f, false, false
	}
	hull := lowerHull(nil, points)
	first, last := hull[0], hull[len(hull)-1]
	slope := spanning(hull, (first.x+last.x)/2)
	slope, _, _ = trend(points, nil, slope-1000, slope+1000)
	at, _ := lowest(hull, slope)
	// Half a minimum's interval of drift counts on either end.
	f = fitted{from: first.x, to: last.x, points: len(points), ease: math.Abs(slope) * interval / 2, bound: math.NaN()}
	above := first.y + last.y - 2*at - slope*(first.x+last.x)
	f.skewBound = (above + 2*f.ease + timing) / span(points)
	f.line = line{-sign * slope * f.from, sign * slope}
	return f, true, false
}

func span(points []vertex) float64 { return points[len(points)-1].x - points[0].x }
