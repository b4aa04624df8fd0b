package clickhouse

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pillion.dev/measure/histogram"
)

func TestPack(t *testing.T) {
	for name, want := range map[string]buckets{
		"empty":   {},
		"offsets": {{-128, 3, 5, 0}, {0, 1, 0, 0}, {192, 400, 90_000, 0}},
		"unknown": {{-128, 3, 0, 1}, {192, 400, 0, 70_000}},
		"both":    {{math.MinInt64, math.MaxUint64, 0, 2}, {-1, 1, 0, 0}, {math.MaxInt64, 1, offsetMost, 1}},
		"none":    {{5, 0, 0, 1}, {1001, 7, 1, 0}},
	} {
		var h packedHistogram
		packed, tail := want.pack()
		got, err := buckets(nil).unpack(string(packed), string(tail), &h)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
		err = h.unpack(string(packed))
		unknown := h.unknown
		if err != nil || unknown != (name == "unknown" || name == "both") || (len(tail) > 0) != (unknown || name == "none") {
			t.Errorf("%s: offsets unknown: %v, %v; %d B of them", name, unknown, err, len(tail))
		}
	}
	for _, damaged := range []string{"", "\x01", "\x00\x08", "\x01\x01\x02", "\x01\x03\x02\x03", "\x00\x00\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		if got, err := buckets(nil).unpack(damaged, "", &packedHistogram{}); err == nil {
			t.Errorf("%q: %v", damaged, got)
		}
	}
}

// FuzzUnpack: what can be read is packed as the same buckets.
func FuzzUnpack(f *testing.F) {
	for _, b := range []buckets{{{-128, 3, 0, 1}, {0, 1, 7, 0}}, {{1, 2, 3, 0}}, {{1001, 1, 0, 1}}} {
		packed, unknown := b.pack()
		f.Add(string(packed), string(unknown))
	}
	f.Fuzz(func(t *testing.T, packed, unknown string) {
		var h packedHistogram
		got, err := buckets(nil).unpack(packed, unknown, &h)
		if err != nil {
			return
		}
		head, tail := got.pack()
		again, err := buckets(nil).unpack(string(head), string(tail), &h)
		if err != nil || !slices.Equal(got, again) {
			t.Errorf("%v, then %v, %v", got, again, err)
		}
	})
}

// TestPackedSum: sums are what merged histograms are.
func TestPackedSum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 100 {
		var got, want histogram.Histogram
		var sum packedSum
		var one packedHistogram
		for range 1 + random.IntN(5) {
			var of buckets
			for at := random.IntN(200) - 100; at < 100; at += 1 + random.IntN(90) {
				one := bucket{bound: histogram.Bound(at * 30), count: uint64(random.IntN(3)), offsets: uint64(random.IntN(2))}
				if round%3 == 1 && random.IntN(5) == 0 {
					one.offsets, one.unknown = 0, 1
				}
				if round%5 == 1 && random.IntN(5) == 0 {
					one.bound += 3 // of another layout
				}
				if round%7 == 1 {
					one.count, one.offsets = one.count<<63, one.offsets<<63
				}
				if of = append(of, one); one.unknown == 0 {
					want.AddSum(one.bound, one.count, one.offsets)
				} else {
					want.AddBucket(one.bound, one.count)
				}
			}
			packed, _ := of.pack()
			if err := one.unpack(string(packed)); err != nil {
				t.Fatal(err)
			}
			sum.add(&one)
		}
		sum.addTo(&got)
		if !slices.Equal(got.Bounds, want.Bounds) || !slices.Equal(got.Counts, want.Counts) || !slices.Equal(got.Offsets, want.Offsets) {
			t.Fatalf("round %d: %+v, want %+v", round, got, want)
		}
	}
	for _, damaged := range []string{"", "\x01\x01", "\x01\x01\xfe\xff\x7f\x01", "\x01\x03\x02\x01", "\x01\x01\x02\x01\x00", "\x01\x00\x02"} {
		if err := new(packedHistogram).unpack(damaged); err == nil {
			t.Errorf("%q was read", damaged)
		}
	}
}
