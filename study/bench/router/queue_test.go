package main

import (
	"maps"
	"slices"
	"testing"

	"pillion.dev/study/bench/result"
)

func TestQueues(t *testing.T) {
	for name, c := range map[string]struct {
		came, left        result.Sample
		depths, betweened sizes
	}{
		"one by one":  {result.Sample{1, 3, 5}, result.Sample{2, 4, 6}, sizes{1: 3}, sizes{1: 2}},
		"all at once": {result.Sample{1, 2, 3}, result.Sample{4, 5, 6}, sizes{3: 1, 2: 1, 1: 1}, sizes{0: 2}},
		"none":        {nil, nil, sizes{}, sizes{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := depths(c.came, c.left); !maps.Equal(got, c.depths) {
				t.Errorf("depths %v, want %v", got, c.depths)
			}
			if got := arrivals(c.came, c.left); !maps.Equal(got, c.betweened) {
				t.Errorf("arrivals %v, want %v", got, c.betweened)
			}
		})
	}
}

func TestPeaks(t *testing.T) {
	for name, c := range map[string]struct {
		counts []uint64
		want   []int64
	}{
		"none":              {nil, nil},
		"one":               {[]uint64{0, 10, 50, 20}, []int64{2}},
		"two":               {[]uint64{0, 50, 10, 40}, []int64{1, 3}},
		"two apart":         {[]uint64{0, 50, 0, 40}, []int64{1, 3}},
		"no valley":         {[]uint64{0, 50, 30, 40}, []int64{1}},
		"higher behind":     {[]uint64{10, 9, 8, 50}, []int64{3}},
		"too few in it":     {[]uint64{1000, 0, 2}, []int64{0}},
		"three":             {[]uint64{30, 0, 20, 0, 0, 9}, []int64{0, 2, 5}},
		"second is higher":  {[]uint64{0, 10, 3, 40, 50, 3}, []int64{1, 4}},
		"rising to the end": {[]uint64{1, 2, 3}, []int64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			var bins []result.Bin
			for i, n := range c.counts {
				if n > 0 { // as a histogram lists them
					bins = append(bins, result.Bin{At: int64(i), Width: 1, Count: n})
				}
			}
			var got []int64
			for _, b := range peaks(bins) {
				got = append(got, b.At)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
