// Package estimate computes the capacity and the available bandwidth of a path from the
// times at which packets were sent and received. It is arithmetic on samples: it sends
// nothing, and every function returns the same for the same input.
//
// Each result says which of its assumptions the samples contradict. What no sample can
// show remains an assumption: that the queue of the narrowest link is first in, first out,
// that the route did not change, and that sizes are counted at the layer whose rate is
// wanted (an Ethernet link also carries 24 bytes of preamble, checksum and gap a frame).
// Sending and receiving clocks need not agree, but neither may be stepped in a train.
package estimate

import (
	"fmt"
	"slices"
)

// Packet is one packet of a train.
type Packet struct {
	// SentNS and ReceivedNS are times in ns, by the clocks of the two ends.
	SentNS, ReceivedNS int64
	// Size in bytes on the link whose rate is wanted.
	Size int
	// Lost packets have no ReceivedNS.
	Lost bool
}

// Train is a sequence of packets in the order of sending; two packets are a pair.
type Train []Packet

// Interval is an estimate in bit/s with a range that holds the truth with a probability of
// about 95 % if the assumptions hold.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Finding is an assumption that the samples contradict.
type Finding struct {
	Assumption Assumption `json:"assumption"`
	Detail     string     `json:"detail"`
	// Invalidates says that the estimate must not be used as what it is called.
	Invalidates bool `json:"invalidates"`
}

// Assumption names one.
type Assumption string

const (
	// EnoughSamples: there are at least 20 usable samples.
	EnoughSamples Assumption = "enough samples"
	// FineTimestamps: the resolution of the receive times is small against the dispersion.
	FineTimestamps Assumption = "fine timestamps"
	// SeparateArrivals: the receiver stamps each packet when it arrives, without interrupt
	// coalescing or GRO.
	SeparateArrivals Assumption = "separate arrivals"
	// ClearMode: one mode is the capacity whichever of the samples are left out.
	ClearMode Assumption = "clear mode"
	// SenderFaster: packets are sent faster than the narrowest link forwards them.
	SenderFaster Assumption = "sender faster than the path"
	// ConstantRate: no rate limiter lets a burst pass faster than what follows.
	ConstantRate Assumption = "constant rate"
	// SteadySending: a stream is sent at one rate.
	SteadySending Assumption = "steady sending"
	// LongTrains: there are trains, which tell the capacity from lower modes.
	LongTrains Assumption = "long trains"
	// ConsistentTrends: no higher rate passes while a lower one does not.
	ConsistentTrends Assumption = "consistent trends"
)

// Bits writes a rate in bit/s with a unit.
func Bits(rate float64) string {
	switch {
	case rate >= 1e9:
		return fmt.Sprintf("%.4g Gbit/s", rate/1e9)
	case rate >= 1e6:
		return fmt.Sprintf("%.4g Mbit/s", rate/1e6)
	}
	return fmt.Sprintf("%.4g kbit/s", rate/1e3)
}

// CapacityAssumptions are those that EstimateCapacity tests.
var CapacityAssumptions = []Assumption{EnoughSamples, FineTimestamps, SeparateArrivals, ClearMode, SenderFaster, ConstantRate, LongTrains}

func finding(a Assumption, invalidates bool, format string, args ...any) Finding {
	return Finding{Assumption: a, Invalidates: invalidates, Detail: fmt.Sprintf(format, args...)}
}

// found returns the finding about an assumption.
func found(findings []Finding, a Assumption) (Finding, bool) {
	for _, f := range findings {
		if f.Assumption == a {
			return f, true
		}
	}
	return Finding{}, false
}

// valid reports whether no finding invalidates the estimate.
func valid(findings []Finding) bool {
	return !slices.ContainsFunc(findings, func(f Finding) bool { return f.Invalidates })
}

// quantile of sorted values, by linear interpolation; 0 if there are none.
func quantile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := p * float64(len(sorted)-1)
	under := min(int(at), len(sorted)-1)
	above := min(under+1, len(sorted)-1)
	return sorted[under] + (at-float64(under))*(sorted[above]-sorted[under])
}

func median(values []float64) float64 { return quantile(slices.Sorted(slices.Values(values)), 0.5) }
