package destination

import (
	"pillion.dev/internal/quantity"
	"pillion.dev/measure/histogram"
)

// Summary describes the values of an interval in nanoseconds. Count, Min, Mean
// and Max are exact; quantiles are as exact as package histogram's. It does not prove
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

// MarshalJSON writes null for what no value has.
func (s Summary) MarshalJSON() ([]byte, error) {
	type figures Summary
	return quantity.MarshalMeasured(s.Count > 0, figures(s), "min", "mean", "p50", "p90", "p99", "max")
}

// distribution is a histogram with its exact moments. The histogram has count values but
// for those that the program had no room for.
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

// moments sets what is exact. The extremes of no values are of no interval.
func (d *distribution) moments(count uint64, sum, low, high int64) {
	d.count, d.sum = count, sum
	if count > 0 {
		d.min, d.max = low, high
	}
}
