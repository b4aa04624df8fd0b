package main

import (
	"math"
	"math/rand/v2"
)

// departure is a packet that is due.
type departure struct {
	due    int64 // ns since the first
	length uint16
	rival  bool
}

// plan merges the packets of the test, at a constant rate, with the packets of the rival, whose
// interarrival times are exponential. A rate of 0 is as fast as possible, without a rival.
func plan(lengths []uint16, rate float64, competing float64, rivalLength uint16, seed uint64) []departure {
	random := rand.New(rand.NewPCG(seed, 17))
	all := make([]departure, 0, len(lengths)+int(float64(len(lengths))*competing/max(rate, 1)*1.1))
	next := math.Inf(1)
	arrive := func() { next += random.ExpFloat64() * 1e9 / competing }
	if competing > 0 && rate > 0 {
		next = 0
		arrive()
	}
	for i, length := range lengths {
		due := 0.0
		if rate > 0 {
			due = float64(i) * 1e9 / rate
		}
		for ; next < due; arrive() {
			all = append(all, departure{int64(next), rivalLength, true})
		}
		all = append(all, departure{int64(due), length, false})
	}
	return all
}
