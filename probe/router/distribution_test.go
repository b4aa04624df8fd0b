package router

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pillion.dev/measure/histogram"
)

// distributionOf counts times as the programs do.
func distributionOf(times ...uint64) Distribution {
	d := Distribution{MinNs: math.MaxUint64}
	for _, ns := range times {
		d.Add(int64(ns))
		d.Count++
		d.SumNs += ns
		d.MinNs, d.MaxNs = min(d.MinNs, ns), max(d.MaxNs, ns)
	}
	return d
}

// TestQuantileOfKnownTimes has the sorted times as its oracle.
func TestQuantileOfKnownTimes(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	for name, time := range map[string]func() uint64{
		"of all sizes":       func() uint64 { return uint64(math.Exp(source.NormFloat64()*2 + 12)) },
		"below a nanosecond": func() uint64 { return 0 },
		"sub-microsecond":    func() uint64 { return 200 + uint64(source.ExpFloat64()*80) },
	} {
		t.Run(name, func(t *testing.T) {
			var times []uint64
			for range 10_000 {
				times = append(times, time())
			}
			d := distributionOf(times...)
			slices.Sort(times)
			for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 1} {
				want := times[max(int(math.Ceil(q*10_000))-1, 0)]
				if got := d.Quantile(q); histogram.Index(int64(got)) != histogram.Index(int64(want)) {
					t.Errorf("quantile %v is %.0f ns, want %d", q, got, want)
				}
			}
			if d.Quantile(0.5) > d.Mean()+1 {
				t.Errorf("the median %.0f is above the mean %.0f", d.Quantile(0.5), d.Mean())
			}
		})
	}
}

func TestQuantileOfEmptyDistribution(t *testing.T) {
	var d Distribution
	if got := d.Quantile(0.5); got != 0 {
		t.Errorf("got %v", got)
	}
}

func TestDistributionDifference(t *testing.T) {
	before := distributionOf(500, 2_500_000)
	after := distributionOf(500, 2_500_000, 7_200, 30_000_000)
	d := after.Sub(&before)
	if d.Count != 2 || d.SumNs != 30_007_200 || d.Total() != 2 {
		t.Errorf("%d times of %d ns, want 2 of 30007200", d.Count, d.SumNs)
	}
	if d.MinNs != 7_168 || d.MaxNs != 30_000_000 {
		t.Errorf("from %d to %d, want 7168 to 30000000", d.MinNs, d.MaxNs)
	}
	if same := after.Sub(&after); same.Count != 0 || !same.Empty() || same.MaxNs != 0 {
		t.Errorf("nothing came, but %+v", same)
	}
}

// TestSumOverProcessors: the copies of the processors are one distribution.
func TestSumOverProcessors(t *testing.T) {
	var idle routerPauseSum
	one, other := timesOf(40, 900, 70_000), timesOf(7, 900, 1<<40)
	var d Distribution
	for _, raw := range []*routerPauseSum{&idle, one, &idle, other} {
		d.read(raw.Extremes, &raw.Lengths)
	}
	if want := distributionOf(40, 900, 70_000, 7, 900, 1<<40); !reflect.DeepEqual(d, want) {
		t.Errorf("got %+v, want %+v", d, want)
	}
	var none Distribution
	if none.read(idle.Extremes, &idle.Lengths); !reflect.DeepEqual(none, Distribution{}) {
		t.Errorf("got %+v of nothing", none)
	}
}

// timesOf is what a program leaves of times.
func timesOf(times ...uint64) *routerPauseSum {
	raw := &routerPauseSum{}
	for _, ns := range times {
		i := histogram.Index(int64(ns))
		raw.Lengths[i].Count++
		raw.Lengths[i].Offsets += ns - uint64(histogram.Bound(i))
		raw.Extremes.Low, raw.Extremes.High = max(raw.Extremes.Low, ^ns), max(raw.Extremes.High, ns)
	}
	return raw
}
