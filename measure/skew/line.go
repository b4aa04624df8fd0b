package skew

import (
	"math"
	"slices"
)

// steepest is the greatest rate that is considered, ns per second: two clocks, each adjusted by
// the most that adjtimex allows (500 ppm).
const steepest = 1e6

// line is an offset: at + slope·x.
type line struct{ at, slope float64 }

func (l line) y(x float64) float64 { return l.at + l.slope*x }

// corridor is the set of lines below the hull of forward minima and above the negated hull of
// backward ones. Either hull has at least one vertex.
type corridor struct {
	forward, backward []vertex
	slopes            []float64 // at which one of the supporting vertices changes, ascending
}

func newCorridor(forward, backward []vertex) *corridor {
	c := &corridor{forward: forward, backward: backward, slopes: []float64{-steepest, steepest}}
	add := func(slope float64) {
		if math.Abs(slope) < steepest {
			c.slopes = append(c.slopes, slope)
		}
	}
	for i := range len(forward) - 1 {
		add(edge(forward, i))
	}
	for i := range len(backward) - 1 {
		add(-edge(backward, i))
	}
	slices.Sort(c.slopes)
	return c
}

// ceiling and floor are the highest and the lowest line of a slope, at x = 0.
func (c *corridor) ceiling(slope float64) float64 {
	y, _ := lowest(c.forward, slope)
	return y
}

func (c *corridor) floor(slope float64) float64 {
	y, _ := lowest(c.backward, -slope)
	return -y
}

// width of the corridor at a slope: concave, and linear between two neighbouring slopes.
func (c *corridor) width(slope float64) float64 { return c.ceiling(slope) - c.floor(slope) }

// widest is the line with the greatest distance from both hulls, and the width of the corridor
// there. Among equals it takes the mean slope.
func (c *corridor) widest() (l line, width float64) {
	first, last := 0, 0
	width = math.Inf(-1)
	for i, slope := range c.slopes {
		switch w := c.width(slope); {
		case w > width:
			first, last, width = i, i, w
		case w == width:
			last = i
		}
	}
	slope := (c.slopes[first] + c.slopes[last]) / 2
	return line{(c.ceiling(slope) + c.floor(slope)) / 2, slope}, width
}

// slopeRange is the range of the slopes at which the corridor, widened by ease on either side, has room.
func (c *corridor) slopeRange(ease float64) (least, most float64, ok bool) {
	room := func(slope float64) float64 { return c.width(slope) + 2*ease }
	for i, slope := range c.slopes {
		here := room(slope)
		if here >= 0 {
			if !ok {
				least, ok = slope, true
				if i > 0 {
					least = crossing(c.slopes[i-1], slope, room(c.slopes[i-1]), here)
				}
			}
			most = slope
			continue
		}
		if ok {
			return least, crossing(c.slopes[i-1], slope, room(c.slopes[i-1]), here), true
		}
	}
	return least, most, ok
}

// crossing is where a linear function is zero.
func crossing(a, b, ya, yb float64) float64 {
	if ya == yb {
		return a
	}
	return a + (b-a)*ya/(ya-yb)
}

// extremes are the highest and the lowest value at x of lines whose slopes are in a range.
func (c *corridor) extremes(x, least, most float64) (high, low float64) {
	high, low = math.Inf(-1), math.Inf(1)
	try := func(slope float64) {
		high = max(high, c.ceiling(slope)+slope*x)
		low = min(low, c.floor(slope)+slope*x)
	}
	try(least)
	try(most)
	for _, slope := range c.slopes {
		if slope > least && slope < most {
			try(slope)
		}
	}
	return high, low
}
