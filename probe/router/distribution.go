package router

import (
	"math"

	"pillion.dev/measure/histogram"
)

// Distribution is a histogram of times with exact moments.
type Distribution struct {
	histogram.Histogram `json:"-"`

	Count uint64 `json:"count"`
	SumNs uint64 `json:"sum_ns"`
	MinNs uint64 `json:"min_ns"`
	MaxNs uint64 `json:"max_ns"`
}

// Mean of all times, exact, in ns; 0 if there is none.
func (d *Distribution) Mean() float64 {
	if d.Count == 0 {
		return 0
	}
	return float64(d.SumNs) / float64(d.Count)
}

// Quantile is the quantile of the histogram (package histogram), ns; 0 if there is no time.
func (d *Distribution) Quantile(q float64) (ns float64) {
	if d.Count == 0 {
		return 0
	}
	return d.Histogram.Quantile(q, float64(d.MinNs), float64(d.MaxNs))
}

// Sub is what came since before. The least and largest of an interval are not kept:
// they are the ends of its first and last bucket, within the least and largest of all time.
func (d *Distribution) Sub(before *Distribution) Distribution {
	difference := Distribution{
		Histogram: d.Since(&before.Histogram), Count: d.Count - before.Count, SumNs: d.SumNs - before.SumNs,
	}
	if difference.Empty() {
		return Distribution{}
	}
	last := histogram.Index(difference.Bounds[len(difference.Bounds)-1])
	difference.MinNs = max(uint64(difference.Bounds[0]), d.MinNs)
	difference.MaxNs = min(uint64(histogram.Bound(last)+histogram.Width(last)-1), d.MaxNs)
	return difference
}

// read adds what one processor's programs have counted.
func (d *Distribution) read(extremes routerExtremes, buckets *[histogram.Side]routerBucket) {
	if d.Count == 0 {
		d.MinNs = math.MaxUint64
	}
	before := d.Count
	for i, b := range buckets {
		bound := histogram.Bound(i)
		d.AddSum(bound, b.Count, b.Offsets)
		d.Count += b.Count
		d.SumNs += uint64(bound)*b.Count + b.Offsets
	}
	if d.Count > before {
		d.MinNs, d.MaxNs = min(d.MinNs, ^extremes.Low), max(d.MaxNs, extremes.High)
	} else if d.Count == 0 {
		*d = Distribution{}
	}
}
