package main

import (
	"testing"

	"pillion.dev/study/bench/result/calls"
)

func TestExperimentsCallWithKnownArguments(t *testing.T) {
	calls.Check(t, "bin/bench/capacity", commands, "../*.yaml", "../paper/*/*.yaml")
}

// Oracle: 49 gaps of 1514 bytes, computed by hand.
func TestMedianRate(t *testing.T) {
	var trains [][]int64
	for _, gap := range []int64{12_112, 121_120, 1_211_200} {
		var times []int64
		for i := range int64(packets) {
			times = append(times, 7+i*gap)
		}
		trains = append(trains, times)
	}
	if got := medianRate(trains); got != 100 {
		t.Errorf("median rate %g Mbit/s, want 100", got)
	}
	if got := medianRate(trains[1:]); got != 55 {
		t.Errorf("median of two %g Mbit/s, want 55", got)
	}
	if got := gaps(trains); len(got) != 3 || got[2] != 1_211_200 {
		t.Errorf("gaps %v", got)
	}
}
