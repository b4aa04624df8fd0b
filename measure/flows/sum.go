package flows

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"pillion.dev/measure/histogram"
)

// Sum has the measurements of one row, or the sum of several rows. The zero value is the sum
// of no rows. Sums do not depend on the order in which they are merged.
type Sum struct {
	Counts
	Delay, IPDV Distribution
	// ClockError bounds the error of both clocks together: the largest bound of the rows with
	// delays, or unknown if the bound of any of these rows is unknown.
	ClockError Bound
}

// Counts are numbers of packets, except Bytes. They saturate at the largest uint64.
type Counts struct{ Packets, Bytes, Expected, Lost, Duplicated, Reordered, Late, Unchecked uint64 }

// Bound of an error in ns; the zero value is unknown.
type Bound struct {
	Ns    int64
	Known bool
}

// BoundOf is a known bound.
func BoundOf(ns int64) Bound { return Bound{ns, true} }

// Float is the bound in ns; NaN if it is unknown.
func (b Bound) Float() float64 {
	if !b.Known {
		return math.NaN()
	}
	return float64(b.Ns)
}

// Distribution of a time, ns. If Count is 0, the other fields have no meaning.
type Distribution struct {
	Count    uint64
	Min, Max int64
	// Total is the sum of all values.
	Total     decimal128.Num
	Histogram histogram.Histogram
}

// NewDistribution returns the distribution of count values with these extremes and this mean.
func NewDistribution(count uint64, least, mean, most int64, h histogram.Histogram) Distribution {
	if count == 0 {
		return Distribution{}
	}
	return Distribution{count, least, most, decimal128.FromI64(mean).Mul(decimal128.FromU64(count)), h}
}

// Merge adds other, to which it keeps no reference.
func (s *Sum) Merge(other *Sum) {
	to, from := s.Counts.List(), other.Counts.List()
	for i := range to {
		*to[i] = histogram.Sum(*to[i], *from[i])
	}
	if other.Delay.Count > 0 {
		known := other.ClockError.Known && (s.ClockError.Known || s.Delay.Count == 0)
		s.ClockError = Bound{max(s.ClockError.Ns, other.ClockError.Ns), known}
	}
	s.Delay.Merge(&other.Delay)
	s.IPDV.Merge(&other.IPDV)
}

// CountNames are the names of the columns of Counts.List.
var CountNames = [...]string{"packets", "bytes", "expected", "lost", "duplicated", "reordered", "late", "unchecked"}

// List points to the counts in the order of CountNames.
func (c *Counts) List() [len(CountNames)]*uint64 {
	return [...]*uint64{&c.Packets, &c.Bytes, &c.Expected, &c.Lost, &c.Duplicated, &c.Reordered, &c.Late, &c.Unchecked}
}

// Loss is the lost share of the expected packets; NaN if none was expected.
func (c *Counts) Loss() float64 {
	if c.Expected == 0 {
		return math.NaN()
	}
	return float64(c.Lost) / float64(c.Expected)
}

// Add counts one value.
func (d *Distribution) Add(ns int64) {
	if d.Count == 0 {
		d.Min, d.Max = ns, ns
	}
	d.Count = histogram.Sum(d.Count, 1)
	d.Min, d.Max = min(d.Min, ns), max(d.Max, ns)
	d.Total = d.Total.Add(decimal128.FromI64(ns))
	d.Histogram.Add(ns)
}

// Merge adds other, to which it keeps no reference.
func (d *Distribution) Merge(other *Distribution) {
	if other.Count == 0 {
		return
	}
	if d.Count == 0 {
		d.Min, d.Max = other.Min, other.Max
	}
	d.Count = histogram.Sum(d.Count, other.Count)
	d.Min, d.Max = min(d.Min, other.Min), max(d.Max, other.Max)
	d.Total = d.Total.Add(other.Total)
	d.Histogram.Merge(&other.Histogram)
}

// Shift returns the distribution of all values minus ns. Extremes and mean stay exact; the error of quantiles is
// the width of the buckets of the original values.
func (d *Distribution) Shift(ns int64) Distribution {
	if d.Count == 0 {
		return Distribution{}
	}
	return Distribution{
		Count: d.Count, Min: histogram.Minus(d.Min, ns), Max: histogram.Minus(d.Max, ns),
		Total:     d.Total.Sub(decimal128.FromI64(ns).Mul(decimal128.FromU64(d.Count))),
		Histogram: d.Histogram.Shift(ns, d.Min, d.Max),
	}
}

// Extremes and mean in ns; NaN without values.
func (d *Distribution) Extremes() (least, mean, most float64) {
	if d.Count == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	return float64(d.Min), d.Total.ToFloat64(0) / float64(d.Count), float64(d.Max)
}

// Quantile in ns; NaN without values.
func (d *Distribution) Quantile(q float64) float64 {
	if d.Count == 0 {
		return math.NaN()
	}
	return d.Histogram.Quantile(q, float64(d.Min), float64(d.Max))
}
