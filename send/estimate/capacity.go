package estimate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Limits of the capacity estimate.
const (
	fewestSamples = 20
	longTrain     = 10 // packets of a train that shows the asymptotic dispersion rate
	replicates    = 200
	// belowDispersionRate is how far a mode may lie under the asymptotic dispersion rate, a
	// lower bound of the capacity, for its own uncertainty.
	belowDispersionRate = 0.95
)

// Capacity is the rate of the narrowest link of a path.
type Capacity struct {
	// Rate is the capacity; 0 without a usable sample. It is one only if Valid.
	Rate  Interval `json:"rate"`
	Valid bool     `json:"valid"`
	// Modes of the rates of pairs, the densest first. Modes under the capacity come from
	// cross traffic between the packets of a pair, those above from queues behind the
	// narrowest link that push them together.
	Modes []Mode `json:"modes"`
	// DispersionRate is the mean rate of long trains (pathrate's ADR), which lies between
	// the available bandwidth and the capacity; 0 without long trains.
	DispersionRate Interval `json:"dispersion_rate"`
	// Span is the number of gaps of the spans within trains whose rates give the capacity; 0:
	// pairs give it.
	Span int `json:"span"`
	// Samples is the number of gaps used, Lossy and Reordered count the trains left out.
	Samples   int       `json:"samples"`
	Lossy     int       `json:"lossy"`
	Reordered int       `json:"reordered"`
	Findings  []Finding `json:"findings"`
}

// EstimateCapacity estimates the capacity by the dispersion of packet pairs and trains that
// were sent back to back, after pathrate (C. Dovrolis, P. Ramanathan and D. Moore,
// Packet-dispersion techniques and a capacity-estimation methodology, IEEE/ACM Transactions
// on Networking 12, 2004): of the modes of the rates of pairs that are not below the
// dispersion rate of long trains, the densest. With fewer than 20 pairs the gaps within
// trains are used like pairs. Where trains show a mode that is sharper, without the packets
// that a receiver which has to wake up stamps late, its rate is used instead. The interval is
// a percentile bootstrap over the pairs and over the trains, 200 times, widened by the
// resolution of the receive times and by the deviation of spans.
func EstimateCapacity(trains []Train) Capacity {
	var c Capacity
	usable := c.usable(trains)
	gaps, pairs := samples(usable)
	c.Samples = len(gaps)
	dispersion := dispersionRates(usable)
	if len(dispersion) > 0 {
		c.DispersionRate = resampledMean(dispersion)
	}
	c.Findings = assumptions(usable, gaps, pairs)
	rates := rates(gaps)
	if len(rates) == 0 {
		return c
	}
	c.Modes = modes(rates)
	byTrain, span, deviation := spans(usable)
	if _, limited := found(c.Findings, ConstantRate); span > 0 && !limited {
		c.Span, c.Rate = span, bootstrap(byTrain, dispersion).widened(deviation)
		gaps = innerGaps(usable)
	} else {
		c.Rate = bootstrap(single(rates), dispersion)
	}
	if len(dispersion) == 0 {
		c.Findings = append(c.Findings, finding(LongTrains, false,
			"no train of %d packets or more; a mode caused by cross traffic may have been taken for the capacity", longTrain))
	}
	c.Findings = append(c.Findings, unclear(c.Rate)...)
	c.Findings = append(c.Findings, c.resolution(usable, gaps)...)
	c.Findings = append(c.Findings, senderLimit(gaps, c.Rate.Value)...)
	c.Valid = valid(c.Findings)
	return c
}

// usable returns the trains of which all packets arrived in order, and counts the others.
func (c *Capacity) usable(trains []Train) []Train {
	var usable []Train
	for _, train := range trains {
		inOrder := slices.IsSortedFunc(train, func(a, b Packet) int { return cmp.Compare(a.ReceivedNS, b.ReceivedNS) })
		switch {
		case slices.ContainsFunc(train, func(p Packet) bool { return p.Lost }):
			c.Lossy++
		case !inOrder:
			c.Reordered++
		case len(train) > 1:
			usable = append(usable, train)
		}
	}
	return usable
}

// gap is the time between two packets of a train, and the size of the second.
type gap struct {
	sent, received, size int64 // ns, ns, bytes
}

// rate in bit/s at which the second packet was forwarded.
func (g gap) rate() float64 { return float64(g.size) * 8e9 / float64(g.received) }

// samples returns the gaps of the pairs, or of all trains if there are too few pairs.
func samples(trains []Train) (gaps []gap, arePairs bool) {
	var pairs, all []gap
	for _, train := range trains {
		gaps := gapsOf(train)
		if all = append(all, gaps...); len(gaps) == 1 {
			pairs = append(pairs, gaps...)
		}
	}
	if len(pairs) >= fewestSamples {
		return pairs, true
	}
	return all, false
}

func gapsOf(train Train) []gap {
	var gaps []gap
	for i, p := range train[1:] {
		gaps = append(gaps, gap{p.SentNS - train[i].SentNS, p.ReceivedNS - train[i].ReceivedNS, int64(p.Size)})
	}
	return gaps
}

// dispersionRates are the rates at which long trains arrived.
func dispersionRates(trains []Train) []float64 {
	var rates []float64
	for _, train := range trains {
		if len(train) < longTrain {
			continue
		}
		var whole gap
		for _, g := range gapsOf(train) {
			whole.received += g.received
			whole.size += g.size
		}
		if whole.received > 0 {
			rates = append(rates, whole.rate())
		}
	}
	return rates
}

// capacityOf chooses among the modes of the rates.
func capacityOf(rates []float64, dispersionRate float64) float64 {
	found := modes(rates)
	for _, m := range found {
		if m.Rate >= belowDispersionRate*dispersionRate {
			return m.Rate
		}
	}
	return found[0].Rate
}

// widened adds a relative error to both sides.
func (i Interval) widened(relative float64) Interval {
	return Interval{i.Value, i.Low / (1 + relative), i.High * (1 + relative)}
}

// single makes each rate a group of its own.
func single(rates []float64) [][]float64 {
	var groups [][]float64
	for i := range rates {
		groups = append(groups, rates[i:i+1])
	}
	return groups
}

// bootstrap estimates the capacity of the rates, and of as many groups of them drawn at
// random: the rates of one train are not independent.
func bootstrap(groups [][]float64, dispersion []float64) Interval {
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]float64, replicates)
	var again []float64
	for i := range values {
		again = again[:0]
		for range groups {
			again = append(again, groups[r.IntN(len(groups))]...)
		}
		values[i] = capacityOf(again, resampled(r, dispersion))
	}
	return between(capacityOf(slices.Concat(groups...), mean(dispersion)), values)
}

// resampledMean is the mean of the values with its interval.
func resampledMean(values []float64) Interval {
	r := rand.New(rand.NewPCG(1, 3))
	means := make([]float64, replicates)
	for i := range means {
		means[i] = resampled(r, values)
	}
	return between(mean(values), means)
}

// resampled is the mean of as many values drawn from these; 0 if there are none.
func resampled(r *rand.Rand, values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for range values {
		sum += values[r.IntN(len(values))]
	}
	return sum / float64(len(values))
}

func mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// between is the value with the central 95 % of its replicates.
func between(value float64, replicates []float64) Interval {
	slices.Sort(replicates)
	return Interval{
		Value: value,
		Low:   math.Min(value, quantile(replicates, 0.025)),
		High:  math.Max(value, quantile(replicates, 0.975)),
	}
}
