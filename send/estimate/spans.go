package estimate

import (
	"math"
	"slices"
)

// Spans are rates over several gaps within trains. A receiver stamps the first packets of a
// train late, as it has to wake up, and each packet with an error; both distort pairs, more
// the faster the path is. Spans leave out the first gaps of a train, and the longer they
// are, the less an error counts.
const (
	wakeUp = 2    // gaps
	sharp  = 0.01 // standard deviation around the densest samples, of the rate
)

var spanLengths = []int{1, 2, 5, 10, 20}

// spans returns the rates of the shortest spans that are sharp, by train, and their length
// in gaps, with the standard deviation around the densest; length 0 if none are, or there
// are too few.
func spans(trains []Train) (byTrain [][]float64, length int, deviation float64) {
	for _, n := range spanLengths {
		byTrain = byTrain[:0]
		var logs []float64
		for _, train := range trains {
			if len(train) < longTrain {
				continue
			}
			rates := spansOf(train, n)
			for _, r := range rates {
				logs = append(logs, math.Log(r))
			}
			byTrain = append(byTrain, rates)
		}
		if len(logs) < fewestSamples {
			return nil, 0, 0
		}
		slices.Sort(logs)
		if deviation = coreSpread(logs); deviation <= sharp {
			return byTrain, n, deviation
		}
	}
	return nil, 0, 0
}

// spansOf are the rates of consecutive spans of n gaps.
func spansOf(train Train, n int) (rates []float64) {
	gaps := gapsOf(train)
	for i := wakeUp; i+n <= len(gaps); i += n {
		var whole gap
		for _, g := range gaps[i : i+n] {
			whole.received, whole.size = whole.received+g.received, whole.size+g.size
		}
		if whole.received > 0 && whole.size > 0 {
			rates = append(rates, whole.rate())
		}
	}
	return rates
}

// innerGaps are the gaps that spans consist of.
func innerGaps(trains []Train) (gaps []gap) {
	for _, train := range trains {
		if len(train) >= longTrain {
			gaps = append(gaps, gapsOf(train)[wakeUp:]...)
		}
	}
	return gaps
}
