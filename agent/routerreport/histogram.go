package routerreport

import (
	"math"

	"pillion.dev/agent/routerreport/chart"
	"pillion.dev/probe/router"
)

// histogram is the bins of a stage as they are drawn, in us.
type histogram struct {
	width  float64 // of a bar
	bound  float64
	parts  []float64 // of all packets
	beyond uint64
	peak   float64
}

// manyMicros is where an axis goes over to milliseconds, in us.
const manyMicros = 5000

// newHistogram takes the part that matters: up to where all but one in a thousand are,
// unless those are far away.
func newHistogram(times Times) histogram {
	d := times.all
	p99, p999 := d.Quantile(.99)/1e3, d.Quantile(.999)/1e3
	bound := chart.Ceiling(max(min(p999*1.02, max(3*p99, 20)), 5))
	h := histogram{width: 1, bound: bound}
	if bound > barLimit {
		h.width = chart.Nice(bound / barLimit)
		h.bound = h.width * math.Ceil(bound/h.width)
	}
	h.parts = make([]float64, int(math.Round(h.bound/h.width)))
	for i, count := range d.Bins {
		h.spread(float64(i), float64(i+1), float64(count)/float64(d.Count))
	}
	last := float64(len(d.Bins)) // where coarse bins begin
	for i, count := range d.Coarse {
		low, high := router.CoarseBounds(i)
		h.spread(max(float64(low)/1e3, last), float64(high)/1e3, float64(count)/float64(d.Count))
	}
	inside := 0.0
	for _, part := range h.parts {
		h.peak = max(h.peak, part)
		inside += part
	}
	h.beyond = uint64(math.Round(max(1-inside, 0) * float64(d.Count)))
	return h
}

func (h histogram) steep() bool {
	bars := 0
	for _, part := range h.parts {
		if part > 0 {
			bars++
		}
	}
	return h.peak > steepPart || h.peak*float64(bars) > steepTimes
}

// spread lays a bin over the bars: times in a bin count as evenly spread.
func (h *histogram) spread(low, high, part float64) {
	if part == 0 || high <= low {
		return
	}
	for i := int(low / h.width); i < len(h.parts) && float64(i)*h.width < high; i++ {
		left, right := float64(i)*h.width, float64(i+1)*h.width
		h.parts[i] += part * (min(right, high) - max(left, low)) / (high - low)
	}
}

// packets counts them in words.
func packets(n uint64) string {
	if n == 1 {
		return "1 packet"
	}
	return grouped(n) + " packets"
}

// unit of the axis, and what it calls a value.
func (h histogram) unit() string {
	if h.bound > manyMicros {
		return "(ms)"
	}
	return "(µs)"
}

func (h histogram) label(us float64) string {
	if h.bound > manyMicros {
		return millis(us)
	}
	return chart.Number(us)
}

func millis(us float64) string { return chart.Number(us / 1e3) }
