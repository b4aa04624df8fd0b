package destination

import (
	"math"

	"pillion.dev/measure/histogram"
)

// Summary describes the values of an interval in nanoseconds. Count, Min, Mean
// and Max are exact; quantiles are those of package histogram. It does not prove
// what the network did: the clocks' error is in every value.
type Summary struct {
	Count uint64 `json:"count"`
	Min   int64  `json:"min"`
	Mean  int64  `json:"mean"`
	P50   int64  `json:"p50"`
	P90   int64  `json:"p90"`
	P99   int64  `json:"p99"`
	Max   int64  `json:"max"`
}

// distribution is a histogram with its exact moments. The program may count a packet
// between the reading of a count and of its bucket, so that a row's histogram may have
// a few values more or fewer than its count; the next row makes up for them.
type distribution struct {
	histogram.Histogram
	count    uint64
	sum      int64
	min, max int64
}

func (d *distribution) summary() Summary {
	if d.count == 0 {
		return Summary{}
	}
	mean := d.sum / int64(d.count)
	quantile := func(q float64) int64 {
		if d.Empty() {
			return mean
		}
		return int64(d.Quantile(q, float64(d.min), float64(d.max)))
	}
	return Summary{
		Count: d.count, Min: d.min, Mean: mean, Max: d.max,
		P50: quantile(0.5), P90: quantile(0.9), P99: quantile(0.99),
	}
}

// add merges other into d.
func (d *distribution) add(other *distribution) {
	d.Merge(&other.Histogram)
	if other.count == 0 {
		return
	}
	if d.count == 0 {
		d.min, d.max = other.min, other.max
	}
	d.min, d.max = min(d.min, other.min), max(d.max, other.max)
	d.count += other.count
	d.sum += other.sum
}

// bound sets the extremes. Where a value came after those of its interval were read,
// they are taken from the histogram.
func (d *distribution) bound(low, high int64, known bool) {
	switch {
	case d.count == 0:
	case known && low <= high:
		d.min, d.max = low, high
	case !d.Empty():
		d.min = int64(d.Quantile(0, math.Inf(-1), math.Inf(1)))
		d.max = int64(d.Quantile(1, math.Inf(-1), math.Inf(1)))
	default:
		d.min = d.sum / int64(d.count)
		d.max = d.min
	}
}

// pageSize and sidePages are those of bpf/histogram.h.
const (
	pageSize  = 32
	sidePages = (histogram.Side + pageSize - 1) / pageSize
)

// grow adds what the buckets of a page have counted since they were last read.
// Variations have no offsets.
func (d *distribution) grow(page int, now, before *[pageSize]uint32, offsets, offsetsBefore *[pageSize]uint64) {
	for i := range now {
		n := uint64(now[i] - before[i]) // modulo 2^32, as the program counts
		bound := histogram.Bound((page-sidePages)*pageSize + i)
		switch {
		case offsets == nil:
			d.AddBucket(bound, n)
		case n > 0:
			d.AddSum(bound, n, offsets[i]-offsetsBefore[i])
		default: // the program may be about to count the value
			offsets[i] = offsetsBefore[i]
		}
	}
}
