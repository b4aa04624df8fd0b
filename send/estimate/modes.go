package estimate

import (
	"cmp"
	"math"
	"slices"
)

// Mode is a local maximum of the density of rates.
type Mode struct {
	// Rate in bit/s: the median of the samples near the maximum.
	Rate float64 `json:"rate"`
	// Share of all samples that lie nearer to this maximum than to the next minimum.
	Share float64 `json:"share"`
	// Density at the maximum, per unit of the natural logarithm of the rate.
	Density float64 `json:"density"`
}

// Parameters of the mode search, in units of the natural logarithm of the rate.
const (
	leastBandwidth = 0.005
	mostBandwidth  = 0.1
	gridPerKernel  = 4    // grid points a bandwidth
	leastHeight    = 0.05 // of a mode, of the highest one
	// core is the share of samples whose narrowest range gives the scale of the noise: the
	// spread of all samples is due to cross traffic. A normal distribution has it within
	// 0.77 standard deviations in all.
	core      = 0.3
	coreWidth = 0.77
)

// modes returns the modes of the rates, the densest first. The density is a Gaussian kernel
// estimate over the logarithm of the rate, where a relative error is the same everywhere;
// its bandwidth follows from the narrowest range that holds 30 % of the samples by
// Silverman's rule. This replaces pathrate's search in histograms, which depends on where
// the bins begin.
func modes(rates []float64) []Mode {
	if len(rates) == 0 {
		return nil
	}
	logs := make([]float64, len(rates))
	for i, r := range rates {
		logs[i] = math.Log(r)
	}
	slices.Sort(logs)
	spread := coreSpread(logs)
	h := min(max(0.9*spread*math.Pow(float64(len(logs)), -0.2), leastBandwidth), mostBandwidth)
	step := h / gridPerKernel
	start := logs[0] - 4*h
	density := kernelDensity(logs, start, step, h)

	var found []Mode
	highest := slices.Max(density)
	for i := 1; i < len(density)-1; i++ {
		if density[i] <= density[i-1] || density[i] < density[i+1] || density[i] < leastHeight*highest {
			continue
		}
		from, to := i, i // the minima on both sides
		for from > 0 && density[from-1] <= density[from] {
			from--
		}
		for to < len(density)-1 && density[to+1] <= density[to] {
			to++
		}
		found = append(found, mode(logs, start+float64(from)*step, start+float64(to)*step,
			start+float64(i)*step, max(2*spread, 2*h), density[i]))
	}
	slices.SortStableFunc(found, func(a, b Mode) int { return cmp.Compare(b.Density, a.Density) })
	return found
}

// mode describes the maximum at a place between two minima; samples within reach give its
// rate.
func mode(logs []float64, low, high, at, reach, density float64) Mode {
	first, _ := slices.BinarySearch(logs, low)
	last, _ := slices.BinarySearch(logs, high)
	near, _ := slices.BinarySearch(logs, max(low, at-reach))
	far, _ := slices.BinarySearch(logs, min(high, at+reach))
	return Mode{
		Rate:    math.Exp(quantile(logs[near:max(far, near)], 0.5)),
		Share:   float64(last-first) / float64(len(logs)),
		Density: density,
	}
}

// coreSpread is the standard deviation of the noise around the densest samples.
func coreSpread(sorted []float64) float64 {
	within := max(int(core*float64(len(sorted))), 1)
	narrowest := math.Inf(1)
	for i := within; i < len(sorted); i++ {
		narrowest = min(narrowest, sorted[i]-sorted[i-within])
	}
	if math.IsInf(narrowest, 1) {
		return 0
	}
	return narrowest / coreWidth
}

// kernelDensity evaluates the density on a grid.
func kernelDensity(sorted []float64, start, step, h float64) []float64 {
	const reach = 4 * gridPerKernel // grid points
	grid := make([]float64, int((sorted[len(sorted)-1]-start)/step)+reach+2)
	norm := 1 / (float64(len(sorted)) * h * math.Sqrt(2*math.Pi))
	for _, x := range sorted {
		nearest := int((x-start)/step + 0.5)
		for i := max(nearest-reach, 0); i <= min(nearest+reach, len(grid)-1); i++ {
			z := (start + float64(i)*step - x) / h
			grid[i] += norm * math.Exp(-z*z/2)
		}
	}
	return grid
}
