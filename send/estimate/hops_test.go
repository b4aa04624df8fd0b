package estimate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pillion.dev/send/estimate"
)

// echoes are round trips over store-and-forward links of the rates, with exponential queueing of
// a mean in ns at each.
func echoes(r *rand.Rand, queue float64, rates ...float64) (all []estimate.Echo) {
	for size := 600; size <= 1500; size += 100 {
		for range 40 {
			time := 0.0
			for _, rate := range rates {
				time += 50_000 + float64(size)*8e9/rate + queue*r.ExpFloat64()
			}
			all = append(all, estimate.Echo{Size: size, RoundTripNS: int64(time)})
		}
	}
	return all
}

func TestHops(t *testing.T) {
	rates := []float64{100e6, 10e6, 50e6}
	for _, queue := range []float64{0, 20_000} {
		t.Run(fmt.Sprintf("queues of %g ns", queue), func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			var hops [][]estimate.Echo
			for i := range rates {
				hops = append(hops, echoes(r, queue, rates[:i+1]...))
			}
			for i, h := range estimate.EstimateHops(hops) {
				if !h.Valid || math.Abs(h.Rate.Value/rates[i]-1) > 0.15 || queue == 0 && math.Abs(h.Rate.Value/rates[i]-1) > 0.001 {
					t.Errorf("hop %d: %+v, want %g", i, h, rates[i])
				}
				if queue > 0 && (h.Rate.Low > rates[i] || h.Rate.High < rates[i]) {
					t.Errorf("hop %d: the interval does not hold the truth: %+v", i, h.Rate)
				}
				if least := 50_000 * float64(i+1); math.Abs(h.RoundTripNS-least) > 0.2*least || queue > 0 && h.QueueNS < queue/3 || queue == 0 && h.QueueNS > 10 {
					t.Errorf("hop %d: %+v", i, h)
				}
			}
		})
	}
}

// TestHopsThatCannotBeEstimated: a hop that does not answer is left out, and the next one is that of both
// links; a link too fast to be seen has only a lower bound.
func TestHopsThatCannotBeEstimated(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	hops := estimate.EstimateHops([][]estimate.Echo{
		echoes(r, 0, 100e6), echoes(r, 0, 100e6, 100e6)[:10], echoes(r, 0, 100e6, 100e6, 100e6), echoes(r, 5000, 100e6, 100e6, 100e6, 1e12), echoes(r, 0, 100e6),
	})
	reported := func(i int, a estimate.Assumption) bool {
		_, reported := find(hops[i].Findings, a)
		return reported && !hops[i].Valid
	}
	if !hops[0].Valid || !reported(1, estimate.EnoughSamples) || math.Abs(hops[2].Rate.Value/50e6-1) > 0.01 {
		t.Errorf("%+v", hops[:3])
	}
	if !reported(3, estimate.Growing) || hops[3].Rate.Value != 0 || !reported(4, estimate.Growing) {
		t.Errorf("%+v", hops[3:])
	}
	if _, err := json.Marshal(hops); err != nil {
		t.Error(err)
	}
}
