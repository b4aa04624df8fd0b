package skew

import (
	"slices"
	"sort"
)

// vertex is a minimum delay in the plane: seconds since an origin, and ns.
type vertex struct{ x, y float64 }

// later is the index of the first of some points, in the order of x, that is later than x.
func later(points []vertex, x float64) int {
	at, _ := slices.BinarySearchFunc(points, x, func(v vertex, x float64) int {
		if v.x <= x {
			return -1
		}
		return 1
	})
	return at
}

// lowerHull returns the lower convex hull of points in the order of x, in the memory of to.
func lowerHull(to, points []vertex) []vertex {
	to = to[:0]
	for _, p := range points {
		if n := len(to); n > 0 && to[n-1].x == p.x {
			if to[n-1].y <= p.y {
				continue
			}
			to = to[:n-1]
		}
		for n := len(to); n >= 2 && !below(to[n-2], to[n-1], p); n = len(to) {
			to = to[:n-1]
		}
		to = append(to, p)
	}
	return to
}

// below reports whether b is below the line from a to c.
func below(a, b, c vertex) bool {
	return (b.y-a.y)*(c.x-a.x) < (c.y-a.y)*(b.x-a.x)
}

// lowest is the least y − slope·x of a hull, and the x at which it is reached.
func lowest(hull []vertex, slope float64) (y, x float64) {
	// The first edge that is not descending once the slope is taken off begins at the lowest vertex.
	i := sort.Search(len(hull)-1, func(i int) bool { return edge(hull, i) >= slope })
	return hull[i].y - slope*hull[i].x, hull[i].x
}

// edge is the slope of the edge that begins at a vertex.
func edge(hull []vertex, i int) float64 {
	return (hull[i+1].y - hull[i].y) / (hull[i+1].x - hull[i].x)
}

// spanning is the slope of the edge above x, 0 of a hull without edges.
func spanning(hull []vertex, x float64) float64 {
	if len(hull) < 2 {
		return 0
	}
	i := sort.Search(len(hull)-2, func(i int) bool { return hull[i+1].x >= x })
	return edge(hull, i)
}
