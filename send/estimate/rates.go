package estimate

import "slices"

// PairRates returns the rates in bit/s that the capacity is estimated from: the rates of pairs,
// or with fewer than 20 pairs of the gaps within trains. They are not sorted.
func PairRates(trains []Train) []float64 {
	gaps, _ := samples(new(Capacity).usable(trains))
	return rates(gaps)
}

// LongGap is the 90th percentile of the times between the packets of trains at the receiver,
// in ns; 0 without a usable train.
func LongGap(trains []Train) float64 {
	var times []float64
	for _, train := range new(Capacity).usable(trains) {
		for _, g := range gapsOf(train) {
			times = append(times, float64(g.received))
		}
	}
	slices.Sort(times)
	return quantile(times, 0.9)
}

// rates of the gaps that have one.
func rates(gaps []gap) []float64 {
	list := make([]float64, 0, len(gaps))
	for _, g := range gaps {
		if g.received > 0 && g.size > 0 {
			list = append(list, g.rate())
		}
	}
	return list
}
