package main

import (
	"math/rand/v2"
	"time"

	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

// delaySamples are the simulated packets of a row; each stands for several.
const delaySamples = 24

// delays returns the distributions of a row whose packets take a way, where every simulated
// packet counts weight times.
func delays(random *rand.Rand, w way, clockOffset time.Duration, weight uint64) (delay, ipdv flows.Distribution) {
	before := int64(0)
	for i := range delaySamples {
		jitter := time.Duration((15 + 40*random.ExpFloat64()) * float64(time.Microsecond))
		queue := time.Duration(random.ExpFloat64() * float64(w.queue))
		ns := int64(w.delay + jitter + queue + clockOffset)
		add(&delay, ns, weight)
		if i > 0 {
			add(&ipdv, ns-before, weight)
		}
		before = ns
	}
	ipdv.Histogram.Offsets = nil // the stream has none
	return delay, ipdv
}

func add(d *flows.Distribution, ns int64, weight uint64) {
	bound := histogram.Bound(histogram.Index(ns))
	one := flows.NewDistribution(weight, ns, ns, ns, histogram.Histogram{
		Bounds: []int64{bound}, Counts: []uint64{weight}, Offsets: []uint64{uint64(ns-bound) * weight},
	})
	d.Merge(&one)
}
