package router

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// distributionOf counts times as the programs do.
func distributionOf(times ...uint64) Distribution {
	d := Distribution{Bins: make([]uint64, linearBins), Coarse: make([]uint64, coarseBins), MinNs: math.MaxUint64}
	for _, ns := range times {
		d.Count++
		d.SumNs += ns
		d.MinNs, d.MaxNs = min(d.MinNs, ns), max(d.MaxNs, ns)
		if ns < linearBins*linearNs {
			d.Bins[ns/linearNs]++
			continue
		}
		for i := range d.Coarse {
			if low, high := CoarseBounds(i); ns >= low && ns < high {
				d.Coarse[i]++
			}
		}
	}
	return d
}

func TestQuantileOfKnownTimes(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	var times []uint64
	for range 10_000 {
		times = append(times, uint64(math.Exp(source.NormFloat64()*2+12)))
	}
	d := distributionOf(times...)
	slices.Sort(times)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 1} {
		want := float64(times[min(int(q*float64(len(times))), len(times)-1)])
		got := d.Quantile(q)
		if math.Abs(got-want) > max(linearNs, want/coarseSteps)*1.1 {
			t.Errorf("quantile %v is %.0f ns, want %.0f", q, got, want)
		}
	}
	if d.Quantile(0) != float64(times[0]) || d.Quantile(1) != float64(times[len(times)-1]) {
		t.Errorf("from %.0f to %.0f, want %d to %d", d.Quantile(0), d.Quantile(1), times[0], times[len(times)-1])
	}
}

func TestQuantileOfNothingIsZero(t *testing.T) {
	if got := (Distribution{}).Quantile(0.5); got != 0 {
		t.Errorf("got %v", got)
	}
}

func TestCoarseBinsFollowEachOther(t *testing.T) {
	end := uint64(1 << coarseFirst)
	for i := range coarseBins {
		low, high := CoarseBounds(i)
		if low != end || high <= low {
			t.Fatalf("bin %d is %d to %d, want it to begin at %d", i, low, high, end)
		}
		end = high
	}
}

func TestDifferenceIsWhatCameBetween(t *testing.T) {
	before := distributionOf(500, 2_500_000)
	after := distributionOf(500, 2_500_000, 7_200, 30_000_000)
	d := after.Sub(before)
	if d.Count != 2 || d.SumNs != 30_007_200 {
		t.Errorf("%d times of %d ns, want 2 of 30007200", d.Count, d.SumNs)
	}
	if d.MinNs != 7_000 || d.MaxNs != 30_000_000 {
		t.Errorf("from %d to %d, want 7000 to 30000000", d.MinNs, d.MaxNs)
	}
	if sum := d.Merge(before); sum.Count != 4 || sum.SumNs != after.SumNs {
		t.Errorf("put together %d times of %d ns, want %d of %d", sum.Count, sum.SumNs, after.Count, after.SumNs)
	}
}
