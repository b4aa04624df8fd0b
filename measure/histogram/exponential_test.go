package histogram

import (
	"math"
	"slices"
	"testing"
)

// edge is the lower bound of an exponential bucket in ns.
func edge(index int32) float64 { return math.Exp2(float64(index)/(1<<ExponentialScale)) * 1e9 }

// TestExponentialError computes, for each bucket of the layout, how far the ends of its exponential bucket are
// from its values: a quantile is any place between those ends, whatever the reader's interpolation.
func TestExponentialError(t *testing.T) {
	worst, worstWide := 0.0, 0.0
	for index := -Side; index < Side; index++ {
		h := Histogram{Bounds: []int64{Bound(index)}, Counts: []uint64{3}}
		e := h.Exponential()
		if index == 0 {
			if e.Zero != 3 || e.Positive != nil || e.Negative != nil {
				t.Errorf("zero is %+v", e)
			}
			continue
		}
		least, most := float64(Bound(index)), float64(Bound(index))+float64(Width(index)-1)
		buckets := e.Positive
		if index < 0 {
			least, most, buckets = -most, -least, e.Negative
		}
		if len(buckets) != 1 || buckets[0].Count != 3 || len(e.Positive)+len(e.Negative) != 1 || e.Zero != 0 {
			t.Fatalf("bucket %d is %+v", index, e)
		}
		err := max(edge(buckets[0].Index+1)/least-1, 1-edge(buckets[0].Index)/most)
		if most < 1<<wideOctave {
			worst = max(worst, err)
		} else {
			worstWide = max(worstWide, err)
		}
	}
	if worst > ExponentialError || worst < ExponentialError-0.001 {
		t.Errorf("relative error %v, documented %v", worst, ExponentialError)
	}
	if worstWide > ExponentialWideError || worstWide < ExponentialWideError-0.01 {
		t.Errorf("relative error from 68.7 s on %v, documented %v", worstWide, ExponentialWideError)
	}
}

// TestExponentialQuantiles: the oracle is the histogram's own quantile.
func TestExponentialQuantiles(t *testing.T) {
	for _, sample := range samples {
		h, sorted := drawn(sample.value, 3000)
		e := h.Exponential()
		total := e.Zero
		for _, b := range slices.Concat(e.Positive, e.Negative) {
			total += b.Count
		}
		if total != h.Total() || !ascend(e.Positive) || !ascend(e.Negative) {
			t.Errorf("%s: %d values of %d, or not ascending: %+v", sample.name, total, h.Total(), e)
		}
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			rank := uint64(math.Ceil(q * 3000))
			want := float64(sorted[rank-1])
			low, high := e.holds(rank)
			if slack := ExponentialError * math.Abs(want); math.Abs(want) < 60e9 && (low > want+slack || high < want-slack || high-low > 2*slack+1) {
				t.Errorf("%s: quantile %v is between %v and %v, sorted %v", sample.name, q, low, high, want)
			}
		}
	}
}

// holds returns the range of the bucket with the value of a rank, ns.
func (e Exponential) holds(rank uint64) (low, high float64) {
	for _, b := range slices.Backward(e.Negative) {
		if rank <= b.Count {
			return -edge(b.Index + 1), -edge(b.Index)
		}
		rank -= b.Count
	}
	if rank <= e.Zero {
		return 0, 0
	}
	rank -= e.Zero
	for _, b := range e.Positive {
		if rank <= b.Count {
			return edge(b.Index), edge(b.Index + 1)
		}
		rank -= b.Count
	}
	return math.NaN(), math.NaN()
}

func ascend(buckets []ExponentialBucket) bool {
	return slices.IsSortedFunc(buckets, func(a, b ExponentialBucket) int { return int(a.Index) - int(b.Index) })
}

// TestExponentialSaturates: counts stop at the largest one.
func TestExponentialSaturates(t *testing.T) {
	h := Histogram{Bounds: []int64{62 << 10, 63 << 10}, Counts: []uint64{math.MaxUint64, 5}}
	e := h.Exponential()
	if len(e.Positive) != 1 || e.Positive[0].Count != math.MaxUint64 {
		t.Errorf("got %+v", e)
	}
}
