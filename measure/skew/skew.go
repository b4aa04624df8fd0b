// Package skew estimates the offset between the clocks of two hosts, and its drift, from the
// minimum one-way delays of both directions, with a bound on the error.
//
// A measured delay is the true one plus the offset of the destination's clock from the source's; in
// the other direction, minus this offset. True delays are not negative, so each minimum bounds
// the offset from one side. While it drifts at a constant rate, it is a line below the lower convex hull of the
// forward minima and above the negated hull of the backward ones: Moon, Skelly and Towsley
// (INFOCOM 1999) pose this as a linear programme, Paxson (SIGMETRICS 1998) uses both directions. Between
// the hulls the estimate follows the minima that are low but not the lowest (quantile regression, trend.go), the
// bound is what other lines between them allow.
//
// The estimate does not prove how a round trip is divided between its directions: constant
// asymmetry of the path cannot be told from an offset, and is why the bound is about half of the minimum
// round-trip time. Minima that queues keep from being reached widen the bound. The bound holds as
// long as the offset drifts at a constant rate; a step, or a change of the rate that
// accumulates, begins a new segment. With one direction only, the offset is unknown, and the drift
// rests on the assumption that the minimum delay of the path does not change.
//
// The package knows neither rows nor the network; server/skew feeds it.
package skew

import (
	"math"
	"time"
)

// Direction of a delay between two hosts.
type Direction int

// Directions.
const (
	Forward Direction = iota
	Backward
)

// Point is a minimum one-way delay, by the clocks as they are.
type Point struct {
	// At is the middle of the interval, by the clock of the host that received the packets.
	At       time.Time
	Interval time.Duration
	MinNs    int64
}

// Estimate is the offset of the forward direction's destination clock from its source's clock. A measured forward delay
// minus the offset is the corrected one.
type Estimate struct {
	// Segment is the first point since the clocks were last set: estimates of one segment have the same.
	Segment time.Time
	// Since and Until are the extremes of the points it rests on, by the clock of the forward destination.
	Since, Until time.Time
	// OffsetNs is the offset at Until. Without Both, the offset at Since is unknown and counts as zero.
	OffsetNs float64
	// SkewPPB is the rate at which it grows, ns per second.
	SkewPPB float64
	// OffsetBoundNs bounds the error of the offset from Since to Until; NaN without Both.
	OffsetBoundNs float64
	// SkewBoundPPB bounds the error of the rate.
	SkewBoundPPB float64
	// DriftNs is the drift within half an interval: how far one value within an interval may be
	// from the offset in its middle.
	DriftNs float64
	// Points used, of both directions.
	Points int
	// Both is set if both directions were measured.
	Both bool
}

// Offset evaluates the estimate at a time, by the clock of the forward destination. The bound is NaN where
// the offset is unknown.
func (e Estimate) Offset(at time.Time) (ns, bound float64) {
	x := at.Sub(e.Until).Seconds()
	outside := max(0, x, -x-e.Until.Sub(e.Since).Seconds())
	return e.OffsetNs + e.SkewPPB*x, e.OffsetBoundNs + e.SkewBoundPPB*outside
}

// Reverse is the same estimate for the backward direction, by the clock of its destination.
func (e Estimate) Reverse() Estimate {
	segment, _ := e.Offset(e.Segment)
	since, _ := e.Offset(e.Since)
	r := e
	r.Segment = after(e.Segment, -segment)
	r.Since, r.Until = after(e.Since, -since), after(e.Until, -e.OffsetNs)
	r.OffsetNs, r.SkewPPB = -e.OffsetNs, -e.SkewPPB
	return r
}

func after(t time.Time, ns float64) time.Time { return t.Add(time.Duration(math.Round(ns))) }

// staleTime is how long an estimate holds after its last point.
const staleTime = time.Minute

// segmentLeast is less than the shortest segment with an estimate, and more than the offset's errors shift the start of a reversed one.
const segmentLeast = 2 * time.Second

// SameSegment reports whether two estimates are of one segment.
func (e Estimate) SameSegment(other Estimate) bool {
	return e.Segment.Sub(other.Segment).Abs() < segmentLeast
}

// Best is the estimate for a time: of the latest segment that had begun, or else of the first one, the
// estimate with the smallest bound there; one whose offset is unknown only if no other is. A list may be in any order.
func Best(list []Estimate, at time.Time) (best Estimate, ok bool) {
	least := math.Inf(1)
	for _, e := range list {
		if e.Segment.Add(-staleTime).After(at) || e.Until.Add(staleTime).Before(at) {
			continue
		}
		_, bound := e.Offset(at)
		if !e.Both {
			bound = e.SkewBoundPPB
		}
		begun, better := !e.Segment.After(at), false
		switch {
		case !ok:
			better = true
		case e.SameSegment(best):
			better = e.Both && !best.Both || e.Both == best.Both && bound <= least
		case begun:
			better = best.Segment.After(at) || e.Segment.After(best.Segment)
		default:
			better = e.Segment.Before(best.Segment)
		}
		if better {
			best, least, ok = e, bound, true
		}
	}
	return best, ok
}
