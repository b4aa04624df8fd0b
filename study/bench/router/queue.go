package main

import (
	"maps"
	"slices"
	"sort"

	"pillion.dev/study/bench/result"
)

// sizes is a histogram of small numbers, such as packets that wait.
type sizes map[int]uint64

// put writes the figures of sizes.
func (z sizes) put(into result.Result, name string) {
	var total, seen uint64
	sum := 0.0
	for n, count := range z {
		total += count
		sum += float64(n) * float64(count)
	}
	if total == 0 {
		return
	}
	into[name+"_mean"] = sum / float64(total)
	keys := slices.Sorted(maps.Keys(z))
	into[name+"_max"] = keys[len(keys)-1]
	for _, n := range keys {
		if seen += z[n]; float64(seen) >= 0.99*float64(total) {
			into[name+"_p99"] = n
			return
		}
	}
}

// depths counts how many packets were in a queue when each left it, itself included: those
// that had come by then less those that had left before. Both lists are sorted.
func depths(came, left result.Sample) sizes {
	z := sizes{}
	for before, at := range left {
		z[sort.Search(len(came), func(i int) bool { return came[i] > at })-before]++
	}
	return z
}

// arrivals counts the packets that came between two successive departures (the paper's
// equations 7 and 8).
func arrivals(came, left result.Sample) sizes {
	z := sizes{}
	last := 0
	for i, at := range left {
		n := sort.Search(len(came), func(i int) bool { return came[i] > at })
		if i > 0 {
			z[n-last]++
		}
		last = n
	}
	return z
}

// Peaks are distinguished from noise by their share and by the valleys between them.
const (
	peakShare  = 0.005 // of all packets, in its bin
	valleyDeep = 0.5   // of the lower of two peaks
)

// peaks returns the local maxima of a histogram that have a minimum share, where between
// two of them lies a bin with at most half of the lower one.
func peaks(bins []result.Bin) (found []result.Bin) {
	var total uint64
	for _, b := range bins {
		total += b.Count
	}
	least := max(uint64(peakShare*float64(total)), 1)
	valley := uint64(0) // lowest bin since the last peak
	for i, b := range bins {
		if len(found) == 0 {
			if b.Count >= least {
				found, valley = append(found, b), b.Count
			}
			continue
		}
		last := found[len(found)-1]
		if valley = min(valley, b.Count); b.At > bins[i-1].At+bins[i-1].Width {
			valley = 0 // bins without packets are not listed
		}
		switch {
		case b.Count >= least && float64(valley) <= valleyDeep*float64(min(b.Count, last.Count)):
			found, valley = append(found, b), b.Count
		case b.Count > last.Count:
			found[len(found)-1], valley = b, b.Count
		}
	}
	return found
}

// addBins adds a histogram of times.
func addBins(r result.Result, name string, bins []result.Bin) {
	for _, b := range bins {
		r.AddRow(map[string]any{"histogram": name, "at": result.US(float64(b.At)), "width": result.US(float64(b.Width)), "packets": b.Count, "unit": "us", "reason": ""})
	}
}

// addSizes adds a histogram of numbers.
func addSizes(r result.Result, name string, z sizes) {
	for _, n := range slices.Sorted(maps.Keys(z)) {
		r.AddRow(map[string]any{"histogram": name, "at": n, "width": 1, "packets": z[n], "unit": "packets", "reason": ""})
	}
}
