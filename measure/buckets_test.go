package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBucketsOfManyRows: histograms of rows, as the filter makes them, add up to that
// of all values, and its quantiles are within a bucket of those of the sorted values.
func TestBucketsOfManyRows(t *testing.T) {
	tests := []struct {
		name  string
		value func(*rand.Rand) int64
		// error that a quantile may have, as a share of it and in ns.
		share, ns float64
	}{
		{"milliseconds", func(r *rand.Rand) int64 { return int64(5e6 * math.Exp(r.NormFloat64()/3)) }, 0.032, 0},
		{"clocks disagree", func(r *rand.Rand) int64 { return int64(2e6 * r.NormFloat64()) }, 0.125, 1000},
		{"two paths", func(r *rand.Rand) int64 { return 1_000_000 + r.Int64N(2)*20_000_000 + r.Int64N(1000) }, 0.032, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(7, 8))
			var sum, whole Buckets
			var all []float64
			for range 30 {
				one := histogram{}
				for range 200 {
					v := test.value(random)
					all = append(all, float64(v))
					one.add(Int64Value(v))
				}
				row := Buckets{Counts: one.counts}
				for _, bound := range one.lower {
					row.Bounds = append(row.Bounds, int64(bound))
				}
				sum.Merge(&row)
			}
			filter := histogram{}
			for _, v := range all {
				filter.add(Int64Value(int64(v)))
			}
			for i, bound := range filter.lower {
				whole.Add(int64(bound), filter.counts[i])
			}
			if !slices.Equal(sum.Bounds, whole.Bounds) || !slices.Equal(sum.Counts, whole.Counts) {
				t.Errorf("got %v, want %v", sum, whole)
			}
			slices.Sort(all)
			for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
				want := all[int(math.Ceil(q*float64(len(all))))-1]
				got := sum.Quantile(q, all[0], all[len(all)-1])
				if math.Abs(got-want) > test.share*math.Abs(want)+test.ns {
					t.Errorf("quantile %v: got %v, want %v", q, got, want)
				}
			}
		})
	}
}

func TestBucketsQuantile(t *testing.T) {
	tests := []struct {
		name        string
		bounds      []int64
		counts      []uint64
		q           float64
		least, most float64
		want        float64
	}{
		{"none", nil, nil, 0.5, 0, 1, math.NaN()},
		{"middle of a bucket", []int64{1024}, []uint64{1}, 0.5, 0, 1e9, 1040},
		{"spread evenly", []int64{1024}, []uint64{4}, 0.5, 0, 1e9, 1036},
		{"least", []int64{1024}, []uint64{1}, 0.5, 1050, 1060, 1050},
		{"most", []int64{1024}, []uint64{1}, 0.5, 1000, 1030, 1030},
		{"narrower than its layout", []int64{1024, 1028}, []uint64{1, 1}, 0.5, 0, 1e9, 1026},
		{"first rank", []int64{0, 1024, 2048}, []uint64{1, 98, 1}, 0.01, 0, 1e9, 16},
		{"last rank", []int64{0, 1024, 2048}, []uint64{1, 98, 1}, 1, 0, 1e9, 2080},
		{"below zero", []int64{-512}, []uint64{1}, 0.5, -1e9, 1e9, -496},
		{"numbers that do not fit", []int64{math.MinInt64, 0, math.MaxInt64}, []uint64{math.MaxUint64, math.MaxUint64, 1}, 0.9, -1e300, 1e300, 25.6},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := Buckets{Bounds: test.bounds, Counts: test.counts}
			got := b.Quantile(test.q, test.least, test.most)
			if math.Abs(got-test.want) > 1e-6 || math.IsNaN(got) != math.IsNaN(test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestBucketsBound: lists in any order, and more of them than there can be.
func TestBucketsBound(t *testing.T) {
	var b Buckets
	for _, bound := range []int64{5, -3, 5, 9, 0} {
		b.Add(bound, math.MaxUint64-1)
	}
	b.Add(7, 0)
	if !slices.Equal(b.Bounds, []int64{-3, 0, 5, 9}) || b.Counts[2] != math.MaxUint64 {
		t.Errorf("got %v", b)
	}
	b.Reset()
	for i := range int64(3 * bucketsMax) {
		b.Add(i*7919%(3*bucketsMax), 1)
	}
	total := uint64(0)
	for _, n := range b.Counts {
		total += n
	}
	if len(b.Bounds) != bucketsMax || total != 3*bucketsMax || !slices.IsSorted(b.Bounds) {
		t.Errorf("%d buckets with %d values", len(b.Bounds), total)
	}
}

// TestBucketsSpread: values of a bin lie evenly over the buckets that it covers, none
// gets lost, and the oracle of the quantile is the bin.
func TestBucketsSpread(t *testing.T) {
	tests := []struct {
		name      string
		low, high int64
		n         uint64
		bounds    []int64
		counts    []uint64
	}{
		{"nothing", 0, 1000, 0, nil, nil},
		{"one in the middle", 1000, 2000, 1, []int64{1472}, []uint64{1}},
		{"half a bucket", 0, 48, 3, []int64{0, 32}, []uint64{2, 1}},
		{"inside one", 65536, 66536, 7, []int64{65536}, []uint64{7}},
		{"across two", 67000, 68000, 10, []int64{65536, 67584}, []uint64{6, 4}},
		{"no length", 1030, 1030, 5, []int64{1024}, []uint64{5}},
		{"the last", 1 << 40, 1 << 41, 5, []int64{1 << 36}, []uint64{5}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var b Buckets
			b.Spread(test.low, test.high, test.n)
			if !slices.Equal(b.Bounds, test.bounds) || !slices.Equal(b.Counts, test.counts) {
				t.Errorf("got %v", b)
			}
		})
	}
	var b Buckets
	b.Spread(3000, 4000, 100_000)
	if got := b.Quantile(0.25, 3000, 4000); math.Abs(got-3250) > 2 {
		t.Errorf("lower quartile of 3000 to 4000 is %v", got)
	}
}
