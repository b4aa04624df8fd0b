package destination

import "math"

// The layout of histogram.h; a test compares the two.
const (
	fineFirst, fineLast, fineSub       = 10, 36, 5
	coarseFirst, coarseLast, coarseSub = 8, 36, 3
	fineTotal                          = 892
	coarseTotal                        = 233
	offsetUnit                         = 256 // parts of a bucket's width
)

// Summary describes the values of an interval in nanoseconds. Count, Min, Mean
// and Max are exact. A quantile lies in its bucket, which is at most 3.2 % of its
// value wide (12.5 % for variation and below zero); within a bucket of delays it
// is placed by the mean of the values there, which the program keeps. It does not
// prove what the network did: the clocks' error is in every value.
type Summary struct {
	Count uint64 `json:"count"`
	Min   int64  `json:"min"`
	Mean  int64  `json:"mean"`
	P50   int64  `json:"p50"`
	P90   int64  `json:"p90"`
	P99   int64  `json:"p99"`
	Max   int64  `json:"max"`
}

// distribution is a histogram of signed nanoseconds with its exact moments.
type distribution struct {
	count    uint64
	sum      int64
	min, max int64
	positive []uint32
	negative []uint32
	offsets  []uint32 // sums of where in their buckets the positive values lie; nil: not kept
	edges    layout   // of the positive side; the negative is always coarse
}

type layout struct{ first, last, sub int }

var (
	fine   = layout{fineFirst, fineLast, fineSub}
	coarse = layout{coarseFirst, coarseLast, coarseSub}
)

// bounds are the values [low, high) that fall into a bucket.
func (l layout) bounds(bucket int) (low, high float64) {
	linear := 1 << l.sub
	if bucket < linear {
		step := math.Ldexp(1, l.first-l.sub)
		return float64(bucket) * step, float64(bucket+1) * step
	}
	regular := linear + (l.last-l.first)<<l.sub
	if bucket >= regular {
		octave := l.last + bucket - regular
		return math.Ldexp(1, octave), math.Ldexp(1, octave+1)
	}
	octave := l.first + (bucket-linear)>>l.sub
	step := math.Ldexp(1, octave-l.sub)
	low = math.Ldexp(1, octave) + float64((bucket-linear)&(linear-1))*step
	return low, low + step
}

func (l layout) middle(bucket int) int64 {
	low, high := l.bounds(bucket)
	return int64((low + high) / 2)
}

// quantile is the value at rank ceil(q * count), within the exact extremes.
func (d *distribution) quantile(q float64) int64 {
	rank := uint64(math.Ceil(q * float64(d.count)))
	var below uint64
	for i := len(d.negative) - 1; i >= 0; i-- {
		if below += uint64(d.negative[i]); below >= rank {
			return d.within(-coarse.middle(i))
		}
	}
	for i, n := range d.positive {
		if below+uint64(n) >= rank {
			return d.within(d.place(i, (float64(rank-below)-0.5)/float64(n)))
		}
		below += uint64(n)
	}
	return d.max
}

// place is the value below which a share of a bucket's values lie, if they are
// spread evenly around their mean as far as the bucket and the extremes allow.
func (d *distribution) place(bucket int, share float64) int64 {
	low, high := d.edges.bounds(bucket)
	width := high - low
	low, high = max(low, float64(d.min)), min(high, float64(d.max)+1)
	mean := (low + high) / 2
	if d.offsets != nil {
		from, _ := d.edges.bounds(bucket)
		part := (float64(d.offsets[bucket])/float64(d.positive[bucket]) + 0.5) / offsetUnit
		mean = max(low, min(high, from+part*width))
	}
	half := min(mean-low, high-mean)
	return int64(mean + (2*share-1)*half)
}

func (d *distribution) within(value int64) int64 {
	return max(d.min, min(d.max, value))
}

func (d *distribution) summary() Summary {
	if d.count == 0 {
		return Summary{}
	}
	return Summary{
		Count: d.count, Min: d.min, Mean: d.sum / int64(d.count), Max: d.max,
		P50: d.quantile(0.5), P90: d.quantile(0.9), P99: d.quantile(0.99),
	}
}

// add merges other into d.
func (d *distribution) add(other *distribution) {
	if other.count == 0 {
		return
	}
	if d.count == 0 {
		d.min, d.max = other.min, other.max
	}
	d.min, d.max = min(d.min, other.min), max(d.max, other.max)
	d.count += other.count
	d.sum += other.sum
	for i, n := range other.positive {
		d.positive[i] += n
	}
	for i, n := range other.negative {
		d.negative[i] += n
	}
	for i, n := range other.offsets {
		d.offsets[i] += n
	}
}

func newDistribution(edges layout) distribution {
	d := distribution{edges: edges, negative: make([]uint32, coarseTotal)}
	if edges == fine {
		d.positive, d.offsets = make([]uint32, fineTotal), make([]uint32, fineTotal)
	} else {
		d.positive = make([]uint32, coarseTotal)
	}
	return d
}
