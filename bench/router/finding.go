package main

import (
	"fmt"
	"slices"

	"pillion.dev/bench/estimate"
	"pillion.dev/measure/histogram"
)

// finding is a claim of the paper and the result on this kernel.
type finding struct {
	Claim     string             `json:"claim"`
	Confirmed bool               `json:"confirmed"`
	Rule      string             `json:"rule"` // that decides
	Statistic map[string]float64 `json:"statistic"`
}

// Limits of the rules.
const (
	constantVariation = 0.1
	limitedDepth      = 10 // packets; the kernel's input queue holds 1,000
	smallDistance     = 0.1
	regularVariation  = 0.5
)

// findings compares all cells with the paper's conclusions.
func findings(cells []*cell) []finding {
	return []finding{notConstant(cells), limited(cells), distribution(cells), mean(cells), regular(cells)}
}

// atLossless returns the cells of the first set of experiments.
func atLossless(cells []*cell) (found []*cell) {
	for _, c := range cells {
		if c.Lossless {
			found = append(found, c)
		}
	}
	return found
}

func notConstant(cells []*cell) finding {
	f := finding{
		Claim: "processing delay is not constant: it has several peaks",
		Rule: fmt.Sprintf("its coefficient of variation is above %v, and it has two peaks or more in bins of 50 ns, "+
			"for each constant size", constantVariation),
		Confirmed: true, Statistic: map[string]float64{},
	}
	for _, c := range atLossless(cells) {
		_, variation := spreadOf(c.fine)
		fine, coarse := peaks(c.fine), peaks(c.pooled(stage("processing")))
		f.Statistic[c.Name+" variation"] = round(variation)
		f.Statistic[c.Name+" peaks in 50 ns bins"] = float64(len(fine))
		f.Statistic[c.Name+" peaks in the histogram"] = float64(len(coarse))
		for i, at := range fine {
			f.Statistic[fmt.Sprintf("%s peak %d at us", c.Name, i+1)] = float64(at) * fineNs / 1000
		}
		f.Confirmed = f.Confirmed && variation > constantVariation && len(fine) >= 2
	}
	return f
}

// limited computes the mean depth of each queue by Little's law, arrivals times mean wait,
// without counting any queue.
func limited(cells []*cell) finding {
	f := finding{
		Claim:     "queuing is limited",
		Rule:      fmt.Sprintf("on average at most %d packets wait in either queue at lossless throughput", limitedDepth),
		Confirmed: true, Statistic: map[string]float64{},
	}
	for _, c := range atLossless(cells) {
		for _, name := range []string{"input_queuing", "output_queuing"} {
			var depths, high []float64
			for _, t := range c.Tests {
				depths = append(depths, t.Rate*t.Stages[name].MeanUs/1e6)
				high = append(high, t.Stages[name].P99Us)
			}
			f.Statistic[c.Name+" "+name+" mean depth"] = round(estimate.Median(depths))
			f.Statistic[c.Name+" "+name+" p99 us"] = estimate.Median(high)
			f.Confirmed = f.Confirmed && estimate.Median(depths) <= limitedDepth
		}
		if sizes := c.pooled(func(t *test) []uint64 { return t.inputs }); total(sizes) > 0 {
			f.Statistic[c.Name+" share that found at most 10 in the input queue"] = round(below(sizes, limitedDepth+1))
		}
		if sizes := c.pooled(func(t *test) []uint64 { return t.outputs }); total(sizes) > 0 {
			f.Statistic[c.Name+" share that found at most 10 in the output queue"] = round(below(sizes, limitedDepth+1))
		}
	}
	return f
}

// within is the 95th percentile of the distance between tests of the same cell: the
// difference without a cause.
func within(c *cell, name string) float64 {
	var all []float64
	for i := range c.Tests {
		for j := range i {
			all = append(all, distance(c.Tests[i].Stages[name].bins, c.Tests[j].Stages[name].bins))
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)*95/100]
}

// between returns the median distance and shift of tests of two cells.
func between(a, b *cell, name string) (apart, moved float64) {
	var distances, shifts []float64
	for _, t := range a.Tests {
		for _, u := range b.Tests {
			distances = append(distances, distance(t.Stages[name].bins, u.Stages[name].bins))
			shifts = append(shifts, shift(t.Stages[name].bins, u.Stages[name].bins, widthUs))
		}
	}
	return estimate.Median(distances), estimate.Median(shifts)
}

// widthUs returns the width of a bucket of package histogram.
func widthUs(i int) float64 { return float64(histogram.Width(i)) / 1e3 }

// compare adds the distances of two cells at the same rate to the finding and returns
// the largest of those that exceed the distance within one cell.
func (f *finding) compare(a, b *cell) (most float64) {
	if a == nil || b == nil {
		return 0
	}
	for _, name := range stageNames[:3] {
		apart, moved := between(a, b, name)
		noise := max(within(a, name), within(b, name))
		label := fmt.Sprintf("%s, %s, %s", a.Name, b.Name, name)
		f.Statistic[label+": distance"] = round(apart)
		f.Statistic[label+": shift us"] = round(moved)
		f.Statistic[label+": distance of tests of the same"] = round(noise)
		if apart > noise {
			most = max(most, apart)
		}
	}
	return most
}

func distribution(cells []*cell) finding {
	f := finding{
		Claim: "delays do not depend on the distribution of the payload size",
		Rule: fmt.Sprintf("no stage's Kolmogorov-Smirnov distance from constant sizes, at the same rate, is both above %v and "+
			"above that of tests of the same kind; 600 is the mean of both distributions, 550 what the paper compared with", smallDistance),
		Statistic: map[string]float64{},
	}
	var most float64
	for _, varied := range []string{gaussian.name, pareto.name} {
		for _, fixed := range []string{"constant 600", "constant 550"} {
			most = max(most, f.compare(find(cells, varied, false), find(cells, fixed, false)))
		}
	}
	f.Confirmed = most <= smallDistance
	return f
}

func mean(cells []*cell) finding {
	f := finding{
		Claim: "delays depend on the mean of the payload size",
		Rule: fmt.Sprintf("some stage's Kolmogorov-Smirnov distance of 20 from 1400 bytes, at the same rate, is above %v and "+
			"above that of tests of the same kind", smallDistance),
		Statistic: map[string]float64{},
	}
	f.Confirmed = f.compare(find(cells, "constant 20", false), find(cells, "constant 1400", false)) > smallDistance
	return f
}

func regular(cells []*cell) finding {
	f := finding{
		Claim: "coffee breaks recur with some regularity, after about so many packets",
		Rule: fmt.Sprintf("at 550 bytes the number of packets between two has a coefficient of variation below %v; "+
			"independent ones would have 1", regularVariation),
		Statistic: map[string]float64{},
	}
	c := find(cells, "constant 550", true)
	if c == nil {
		return f
	}
	counts := c.pooled(func(t *test) []uint64 { return t.between })
	packets, variation := spreadOf(counts)
	likely := 0
	for i, n := range counts {
		if n > counts[likely] {
			likely = i
		}
	}
	f.Statistic["coffee breaks that were compared"] = float64(total(counts))
	f.Statistic["packets between two, mean"] = round(packets)
	f.Statistic["packets between two, most often"] = float64(likely)
	f.Statistic["variation"] = round(variation)
	f.Confirmed = total(counts) > 1 && variation < regularVariation
	return f
}
