package histogram

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestLayoutCoversEveryValue: buckets are contiguous from the smallest to the largest
// value, and as narrow as specified.
func TestLayoutCoversEveryValue(t *testing.T) {
	end := int64(math.MinInt64)
	for i := -Side; i < Side; i++ {
		bound, width := Bound(i), Width(i)
		if bound != end || width <= 0 {
			t.Fatalf("bucket %d begins at %d and is %d wide; the one before ended at %d", i, bound, width, end)
		}
		end = bound + width // of the last, 2^63, which overflows
		for _, v := range []int64{bound, bound + width/2, end - 1} {
			if Index(v) != i {
				t.Errorf("%d is in bucket %d, want %d", v, Index(v), i)
			}
		}
		size := float64(max(bound, -end))
		if size < 64e9 && float64(width) > max(1, size/32) {
			t.Errorf("bucket %d from %d is %d wide", i, bound, width)
		}
	}
	if end != math.MinInt64 {
		t.Errorf("the last bucket ends at %d", end)
	}
}

// TestQuantileAgainstSorted: the oracle is the sorted values.
func TestQuantileAgainstSorted(t *testing.T) {
	for _, sample := range samples {
		t.Run(sample.name, func(t *testing.T) {
			h, sorted := drawn(sample.value, 3000)
			bare := Histogram{Bounds: h.Bounds, Counts: h.Counts}
			least, most := float64(sorted[0]), float64(sorted[len(sorted)-1])
			for _, q := range []float64{0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1} {
				want := sorted[max(0, int(math.Ceil(q*3000))-1)]
				limit := float64(Width(Index(want)))
				for name, got := range map[string]float64{
					"": h.Quantile(q, least, most), "without offsets": bare.Quantile(q, least, most),
					"without extremes": h.Quantile(q, math.Inf(-1), math.Inf(1)),
				} {
					if math.Abs(got-float64(want)) > limit || Index(int64(got)) != Index(want) {
						t.Errorf("quantile %v %s is %v, sorted %d", q, name, got, want)
					}
				}
			}
		})
	}
}

// TestQuantileOfNearlyEqualValues: the mean of a bucket determines the position of its values.
func TestQuantileOfNearlyEqualValues(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var h Histogram
	for range 1000 {
		h.Add(20_300_000 + random.Int64N(2000)) // the bucket is 524,288 wide
	}
	h.Add(20_000_000)
	h.Add(21_000_000)
	if got := h.Quantile(0.5, 20_000_000, 21_000_000); math.Abs(got-20_301_000) > 2000 {
		t.Errorf("median of about 20301000 is %v", got)
	}
}

// TestMergeInAnyOrder: parts add up to the histogram of all values.
func TestMergeInAnyOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var whole Histogram
	parts := make([]Histogram, 30)
	for i := range parts {
		for range 200 {
			v := int64(2e6 * random.NormFloat64())
			parts[i].Add(v)
			whole.Add(v)
		}
	}
	for range 3 {
		var sum Histogram
		for _, i := range random.Perm(len(parts)) {
			sum.Merge(&parts[i])
		}
		if !reflect.DeepEqual(sum, whole) {
			t.Errorf("got %v, want %v", sum, whole)
		}
	}
	if whole.Total() != 6000 || whole.Validate() != nil {
		t.Errorf("%d values, %v", whole.Total(), whole.Validate())
	}
}

// TestSince: the difference of two readings is what was added in between.
func TestSince(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	var before, after, between Histogram
	for i := range 400 {
		v := int64(2e6 * random.NormFloat64())
		after.Add(v)
		if i < 200 {
			before.Add(v)
		} else {
			between.Add(v)
		}
	}
	if got := after.Since(&before); !reflect.DeepEqual(got, between) {
		t.Errorf("got %v, want %v", got, between)
	}
	if got := after.Since(&Histogram{}); !reflect.DeepEqual(got, after) {
		t.Errorf("since the start: got %v, want %v", got, after)
	}
	if got := after.Since(&after); !got.Empty() {
		t.Errorf("since now: got %v", got)
	}
	before.Offsets = nil
	if got := after.Since(&before); got.Offsets != nil || !slices.Equal(got.Counts, between.Counts) {
		t.Errorf("without offsets: got %v", got)
	}
}

// TestMalformedLists: unsorted lists with invalid numbers.
func TestMalformedLists(t *testing.T) {
	var h Histogram
	h.Merge(&Histogram{
		Bounds: []int64{5, -3, 5, 9, 0, math.MinInt64, math.MaxInt64},
		Counts: []uint64{math.MaxUint64, 1, math.MaxUint64, 1, 0, 1, 1},
	})
	if !slices.Equal(h.Bounds, []int64{math.MinInt64, -3, 5, 9, 1 << 62}) || h.Counts[2] != math.MaxUint64 || h.Offsets != nil {
		t.Errorf("got %v", h)
	}
	h.Reset()
	for _, offsets := range []uint64{math.MaxUint64, 1} {
		h.AddSum(64, 1, offsets)
	}
	if h.Offsets != nil || h.Total() != 2 {
		t.Errorf("offsets wrapped around: %v", h)
	}
	h.Reset()
	if h.Add(3); !h.Empty() && !slices.Equal(h.Offsets, []uint64{0}) {
		t.Errorf("offsets of a new histogram are unknown: %v", h)
	}
	for i := range int64(10_000) {
		h.AddBucket(i*7919*7919*7919, 1)
	}
	if len(h.Bounds) > Side {
		t.Errorf("%d buckets", len(h.Bounds))
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		h    Histogram
		good bool
	}{
		{"empty", Histogram{}, true},
		{"without offsets", Histogram{[]int64{1, 2}, []uint64{1, 2}, nil}, true},
		{"with offsets", Histogram{[]int64{1, 2}, []uint64{1, 2}, []uint64{0, 0}}, true},
		{"too few counts", Histogram{[]int64{1, 2}, []uint64{1}, nil}, false},
		{"too few offsets", Histogram{[]int64{1, 2}, []uint64{1, 2}, []uint64{1}}, false},
		{"descending", Histogram{[]int64{2, 1}, []uint64{1, 2}, nil}, false},
		{"twice the same", Histogram{[]int64{1, 1}, []uint64{1, 2}, nil}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := test.h.Validate(); (err == nil) != test.good || !test.good && !errors.Is(err, ErrLists) {
				t.Errorf("got %v", err)
			}
		})
	}
}
