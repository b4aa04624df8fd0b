package main

import (
	"pillion.dev/measure/histogram"
	"pillion.dev/probe/router"
)

// times has the times of a stage in one test.
type times struct {
	Count    uint64   `json:"count"`
	MeanUs   float64  `json:"mean_us"`
	MedianUs float64  `json:"median_us"`
	P99Us    float64  `json:"p99_us"`
	MaxUs    float64  `json:"max_us"`
	bins     []uint64 // by the index of a bucket of package histogram
}

func newTimes(d router.Distribution) times {
	t := times{
		Count: d.Count, MeanUs: round(d.Mean() / 1e3), MedianUs: round(d.Quantile(0.5) / 1e3),
		P99Us: round(d.Quantile(0.99) / 1e3), MaxUs: round(float64(d.MaxNs) / 1e3),
		bins: make([]uint64, histogram.Side),
	}
	for i, bound := range d.Bounds {
		t.bins[histogram.Index(bound)] = d.Counts[i]
	}
	return t
}

// histograms has the histograms of a cell over all its tests. Each lists its non-empty
// bins: bin, count, bin, count and so on.
type histograms struct {
	// The bin of a time is the lower bound of its bucket, in ns.
	Input      []uint64 `json:"input_queuing_ns"`
	Processing []uint64 `json:"processing_ns"`
	Output     []uint64 `json:"output_queuing_ns"`
	Transit    []uint64 `json:"transit_ns"`
	// Fine is processing in bins of 50 ns, of one more test with a record of each packet.
	Fine []uint64 `json:"processing_50ns"`
	// Sizes of the queues that packets found when they left.
	InputSizes  []uint64 `json:"input_queue_size,omitempty"`
	OutputSizes []uint64 `json:"output_queue_size,omitempty"`
	// Between counts packets from one coffee break to the next.
	Between []uint64 `json:"coffee_break_inter_occurrence,omitempty"`
}

func (c *cell) histograms() histograms {
	return histograms{
		Input: sparse(c.pooled(stage("input_queuing")), lowerBound), Processing: sparse(c.pooled(stage("processing")), lowerBound),
		Output: sparse(c.pooled(stage("output_queuing")), lowerBound), Transit: sparse(c.pooled(stage("transit")), lowerBound),
		Fine:        sparse(c.fine, itself),
		InputSizes:  sparse(c.pooled(func(t *test) []uint64 { return t.inputs }), itself),
		OutputSizes: sparse(c.pooled(func(t *test) []uint64 { return t.outputs }), itself),
		Between:     sparse(c.pooled(func(t *test) []uint64 { return t.between }), itself),
	}
}

func lowerBound(i int) uint64 { return uint64(histogram.Bound(i)) }
func itself(i int) uint64     { return uint64(i) }

// sparse lists a histogram's non-empty bins, each name before its count.
func sparse(bins []uint64, name func(i int) uint64) []uint64 {
	list := []uint64{}
	for i, n := range bins {
		if n > 0 {
			list = append(list, name(i), n)
		}
	}
	return list
}

// sum adds histograms bin by bin.
func sum(all ...[]uint64) []uint64 {
	var result []uint64
	for _, bins := range all {
		for len(result) < len(bins) {
			result = append(result, 0)
		}
		for i, n := range bins {
			result[i] += n
		}
	}
	return result
}

// less subtracts an earlier histogram from a later one.
func less(after, before []uint64) []uint64 {
	result := append([]uint64(nil), after...)
	for i, n := range before {
		if i < len(result) {
			result[i] -= n
		}
	}
	return result
}

func round(x float64) float64 { return float64(int64(x*1000+0.5)) / 1000 }
