package clickhouse

import (
	"math"
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
		var h histogram.Histogram
		packed, tail := want.pack()
		got, err := buckets(nil).unpack(string(packed), string(tail), &h)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
		unknown, err := unpack(string(packed), &h)
		if err != nil || unknown != (name == "unknown" || name == "both") || (len(tail) > 0) != (unknown || name == "none") {
			t.Errorf("%s: offsets unknown: %v, %v; %d B of them", name, unknown, err, len(tail))
		}
	}
	for _, damaged := range []string{"", "\x01", "\x00\x08", "\x01\x01\x02", "\x01\x03\x02\x03", "\x00\x00\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		if got, err := buckets(nil).unpack(damaged, "", &histogram.Histogram{}); err == nil {
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
		var h histogram.Histogram
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
