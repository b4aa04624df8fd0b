package skew

import "slices"

// share is how many of the points a trend line has below it. The line below all points rests on the lowest two, which
// are the rarest: it is this line with a share of zero. A larger one has more points to rest on, as long as so many are
// close to what the path takes without queues.
const share = 0.15

// trendError is how exactly the slope is searched for, ns per second.
const trendError = 1e-2

// trend is the quantile regression (Koenker and Bassett 1978) of points of both directions: the slope of the two lines,
// opposite for backward points, which have a share of the points below them and least distance from all, and the values of
// these lines at x = 0. The slope is between two others. Either list may be empty; then its value is 0.
func trend(forward, backward []vertex, least, most float64) (slope, ahead, back float64) {
	heights := make([]float64, max(len(forward), len(backward)))
	for {
		var rise, sink float64
		slope = (least + most) / 2
		ahead, rise = tilt(forward, slope, heights)
		back, sink = tilt(backward, -slope, heights)
		if rise == sink || most-least < trendError {
			return slope, ahead, back
		}
		if rise > sink {
			least = slope
		} else {
			most = slope
		}
	}
}

// tilt is the value at x = 0 of the line of a slope that has a share of the points below it, and by its sign, whether a
// steeper (positive) or a flatter line is closer to the points.
func tilt(points []vertex, slope float64, heights []float64) (at, rise float64) {
	n := len(points)
	if n == 0 {
		return 0, 0
	}
	heights = heights[:n]
	for i, p := range points {
		heights[i] = p.y - slope*p.x
	}
	at = smallest(heights, int(share*float64(n-1)))
	middle := (points[0].x + points[n-1].x) / 2
	var below, on, above, under, along, over float64
	for _, p := range points {
		switch h, x := p.y-slope*p.x, p.x-middle; {
		case h < at:
			below, under = below+1, under+x
		case h > at:
			above, over = above+1, over+x
		default:
			on, along = on+1, along+x
		}
	}
	return at, share*over - (1-share)*under + ((1-share)*below-share*above)/on*along
}

// smallest is the value that k others of a list precede in order; it changes the order.
func smallest(list []float64, k int) float64 {
	for len(list) > 12 {
		pivot := median(list[0], list[len(list)/2], list[len(list)-1])
		low, high := 0, len(list)-1
		for low <= high {
			for list[low] < pivot {
				low++
			}
			for list[high] > pivot {
				high--
			}
			if low <= high {
				list[low], list[high] = list[high], list[low]
				low, high = low+1, high-1
			}
		}
		switch {
		case k <= high:
			list = list[:high+1]
		case k >= low:
			list, k = list[low:], k-low
		default:
			return pivot
		}
	}
	slices.Sort(list)
	return list[k]
}

func median(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }

// typicalLine is the line by whose slope points of both directions have the same trend, and from which these are
// equally far, as far as the corridor allows.
func (c *corridor) typicalLine(forward, backward []vertex, least, most float64) line {
	slope, ahead, back := trend(forward, backward, least, most)
	ceiling, floor := c.ceiling(slope), c.floor(slope)
	return line{max(min(ceiling, floor), min(max(ceiling, floor), (ahead-back)/2)), slope}
}
