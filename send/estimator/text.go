package estimator

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"pillion.dev/send/estimate"
)

// interval writes an estimate with its bounds.
func interval(i estimate.Interval) string {
	return fmt.Sprintf("%s [%s, %s]", estimate.Bits(i.Value), estimate.Bits(i.Low), estimate.Bits(i.High))
}

func (r *capacityResult) text() string {
	c := &r.Capacity
	var b strings.Builder
	b.WriteString(histogram(r.rates, c.Modes))
	switch {
	case c.Samples == 0 || c.Rate.Value == 0:
		b.WriteString("capacity        not measured: no usable pairs or trains\n")
	case c.Valid:
		fmt.Fprintf(&b, "capacity        %s of %s, %s\n", interval(c.Rate), r.Layer, r.Direction)
	default:
		fmt.Fprintf(&b, "capacity        not known: %s is contradicted by the assumptions below\n", interval(c.Rate))
	}
	if c.DispersionRate.Value > 0 {
		fmt.Fprintf(&b, "dispersion rate %s of trains: between available bandwidth and capacity\n", interval(c.DispersionRate))
	}
	fmt.Fprintf(&b, "samples         %d gaps; left out: %d trains with loss, %d with reordering, %d not sent entirely\n", c.Samples, c.Lossy, c.Reordered, r.Unsent)
	return b.String() + r.about.text()
}

func (r *availableResult) text() string {
	var b strings.Builder
	if r.Streams != nil {
		fmt.Fprintf(&b, "%16s %10s %14s %9s %8s\n", "streams at", "increasing", "not increasing", "ambiguous", "unusable")
		for _, t := range r.Streams.Rates {
			fmt.Fprintf(&b, "%16s %10d %14d %9d %8d\n", estimate.Bits(t.Rate), t.Increasing, t.NonIncreasing, t.Ambiguous, t.Unusable)
		}
	}
	switch {
	case r.Valid && r.Method == Chirp:
		fmt.Fprintf(&b, "available       %s of %s, %s; %d chirps, left out: %d with loss, %d with reordering\n",
			interval(r.Chirps.Rate), r.Layer, r.Direction, r.Chirps.Chirps, r.Chirps.Lossy, r.Chirps.Reordered)
	case r.Valid:
		fmt.Fprintf(&b, "available       between %s and %s of %s, %s\n", estimate.Bits(r.Low), estimate.Bits(r.High), r.Layer, r.Direction)
	case r.Streams != nil && r.Low > 0 && len(r.findings) == 0:
		fmt.Fprintf(&b, "available       at least %s of %s, %s: no faster streams built up a queue\n", estimate.Bits(r.Low), r.Layer, r.Direction)
	case r.Streams != nil && r.High > 0 && len(r.findings) == 0:
		fmt.Fprintf(&b, "available       below %s of %s, %s: no streams passed without a queue\n", estimate.Bits(r.High), r.Layer, r.Direction)
	default:
		fmt.Fprintf(&b, "available       not known; rates up to %s were sent\n", estimate.Bits(r.mostAsked))
	}
	return b.String() + r.about.text()
}

func (r *hopsResult) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%3s %-24s %-44s %12s %12s %9s\n", "hop", "router", "link before it", "round trip", "queue", "replies")
	for _, h := range r.Hops {
		link := "not known"
		switch {
		case h.Valid:
			link = interval(h.Rate)
		case h.Rate.Low > 0:
			link = "faster than " + estimate.Bits(h.Rate.Low)
		}
		router := h.Router
		if router == "" {
			router = "no reply"
		}
		fmt.Fprintf(&b, "%3d %-24s %-44s %12s %12s %4d/%d\n", h.Number, router, link, measured(h.RoundTripNS), measured(h.QueueNS), h.Samples, h.Sent)
	}
	return b.String() + r.about.text()
}

// measured writes a time in microseconds, or - for none.
func measured(ns float64) string {
	if ns == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f us", ns/1e3)
}

func (a *about) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sent            %d packets by mechanism %s; arrivals from %s\n", a.Packets, a.Mechanism, a.Arrivals)
	for _, c := range a.Assumptions {
		if c.Holds {
			fmt.Fprintf(&b, "assumption      %s: holds\n", c.Assumption)
		} else {
			fmt.Fprintf(&b, "assumption      %s: contradicted: %s\n", c.Assumption, c.Detail)
		}
	}
	for _, text := range a.Untested {
		fmt.Fprintf(&b, "assumed         %s\n", text)
	}
	for _, text := range a.Remarks {
		fmt.Fprintf(&b, "note: %s\n", text)
	}
	return b.String()
}

const (
	bins     = 24
	barWidth = 50
	edges    = 0.01 // share of the rates at each end outside the histogram
)

// histogram draws the rates in bins of equal width on a logarithmic scale and names the modes.
func histogram(rates []float64, modes []estimate.Mode) string {
	if len(rates) == 0 {
		return ""
	}
	sorted := slices.Sorted(slices.Values(rates))
	low, high := sorted[int(edges*float64(len(sorted)))], sorted[int((1-edges)*float64(len(sorted)-1))]
	width := math.Max(math.Log(high/low)/bins, 0.002) // narrower bins show the clock's unit
	bin := func(rate float64) int { return int(math.Floor(math.Log(rate/low) / width)) }
	counts, outside := make([]int, bins+1), 0
	for _, r := range sorted {
		if i := bin(r); i >= 0 && i < len(counts) {
			counts[i]++
		} else {
			outside++
		}
	}
	most := slices.Max(counts)
	var b strings.Builder
	fmt.Fprintf(&b, "rates of %d gaps, %d outside the range\n", len(rates), outside)
	last := bins
	for last > 0 && counts[last] == 0 {
		last--
	}
	for i, n := range counts[:last+1] {
		line := fmt.Sprintf("%14s %5d %s", estimate.Bits(low*math.Exp(float64(i)*width)), n, strings.Repeat("#", (n*barWidth+most-1)/max(most, 1)))
		for k, m := range modes {
			if bin(m.Rate) == i {
				line += fmt.Sprintf(" mode %d: %s, %.0f %%", k+1, estimate.Bits(m.Rate), 100*m.Share)
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
