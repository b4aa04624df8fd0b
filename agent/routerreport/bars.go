package routerreport

import (
	"math"

	"pillion.dev/agent/routerreport/chart"
	"pillion.dev/measure/histogram"
)

// bars are the histogram of a stage as drawn, in us.
type bars struct {
	width  float64 // of a bar
	bound  float64
	parts  []float64 // of all packets
	beyond uint64
	peak   float64
}

// leastMicros is the minimum length of an axis, in us.
const leastMicros = .1

// manyMicros is where an axis switches to milliseconds, in us.
const manyMicros = 5000

// newBars covers the values up to the 99.9th percentile, or all of them if the largest is
// not far beyond.
func newBars(times Times) bars {
	d := times.all
	p99, p999 := d.Quantile(.99)/1e3, d.Quantile(.999)/1e3
	bound := chart.Ceiling(max(min(p999*1.02, 3*p99), leastMicros))
	h := bars{width: chart.Nice(bound / timeLimit)}
	h.bound = h.width * math.Ceil(bound/h.width*(1-1e-9))
	h.parts = make([]float64, int(math.Round(h.bound/h.width)))
	for i, from := range d.Bounds {
		low := max(float64(from), float64(d.MinNs))
		high := min(float64(from+histogram.Width(histogram.Index(from))), float64(d.MaxNs)+1)
		h.spread(low/1e3, high/1e3, float64(d.Counts[i])/float64(d.Count))
	}
	inside := 0.0
	for _, part := range h.parts {
		h.peak = max(h.peak, part)
		inside += part
	}
	h.beyond = uint64(math.Round(max(1-inside, 0) * float64(d.Count)))
	return h
}

func (h bars) steep() bool {
	filled := 0
	for _, part := range h.parts {
		if part > 0 {
			filled++
		}
	}
	return h.peak > steepPart || h.peak*float64(filled) > steepTimes
}

// spread distributes a bucket over the bars, as if its values were evenly distributed.
func (h *bars) spread(low, high, part float64) {
	if part == 0 || high <= low {
		return
	}
	for i := int(low / h.width); i < len(h.parts) && float64(i)*h.width < high; i++ {
		left, right := float64(i)*h.width, float64(i+1)*h.width
		h.parts[i] += part * (min(right, high) - max(left, low)) / (high - low)
	}
}

// packets formats a number of packets.
func packets(n uint64) string {
	if n == 1 {
		return "1 packet"
	}
	return grouped(n) + " packets"
}

// unit of the axis, and what it calls a value.
func (h bars) unit() string {
	if h.bound > manyMicros {
		return "(ms)"
	}
	return "(µs)"
}

func (h bars) label(us float64) string {
	if h.bound > manyMicros {
		return millis(us)
	}
	return chart.Number(us)
}

func millis(us float64) string { return chart.Number(us / 1e3) }
