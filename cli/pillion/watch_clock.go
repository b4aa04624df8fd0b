package pillion

import (
	"context"
	"math"
	"time"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/every"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/skew"
)

// clocksEvery is the time between two questions for clock offsets.
const clocksEvery = 5 * time.Second

// clockPairs are the latest estimates of clock offsets by source and destination.
type clockPairs map[[2]string]skew.Estimate

// askClocks reads the estimates of all pairs.
func askClocks(ctx context.Context, client *api.Client) (clockPairs, error) {
	answer, err := client.Flows.PairClocks(ctx, &pillionv1.PairClocksRequest{})
	if err != nil {
		return nil, err
	}
	pairs := clockPairs{}
	for _, c := range answer.GetClocks() {
		pairs[[2]string{c.GetSource(), c.GetDestination()}] = skew.Estimate{
			Segment: c.GetSegment().AsTime(), Since: c.GetSince().AsTime(), Until: c.GetUntil().AsTime(),
			OffsetNs: c.GetOffsetNs(), OffsetBoundNs: c.GetOffsetBoundNs(), SkewPPB: c.GetSkewPpb(), SkewBoundPPB: c.GetSkewBoundPpb(),
			DriftNs: c.GetDriftNs(), Points: int(c.GetPoints()), Both: !math.IsNaN(c.GetOffsetBoundNs()),
		}
	}
	return pairs, nil
}

// followClocks asks for the estimates until the context ends; a failure shows in follow too.
func (w *watching) followClocks(ctx context.Context, reached chan<- news) {
	every.Do(ctx, clocksEvery, func() {
		if pairs, err := askClocks(ctx, w.client); err == nil {
			pass(ctx, reached, news{clocks: pairs})
		}
	})
}

// correction is what the estimated clock offset makes of a window.
type correction struct {
	flows.Distribution
	// offset is the latest; bound the largest, NaN if unknown.
	offset, bound float64
}

// add corrects the delays of a row.
func (c *correction) add(row *flows.Row, pairs clockPairs) {
	estimate, known := pairs[[2]string{row.Source, row.Destination}]
	if !known || row.Delay.Count == 0 {
		return
	}
	offset, bound := estimate.Offset(row.Middle())
	shifted := row.Delay.Shift(int64(math.Round(offset)))
	bound += estimate.DriftNs
	if c.Count > 0 {
		bound = max(bound, c.bound) // NaN stays
	}
	c.Merge(&shifted)
	c.offset, c.bound = offset, bound
}

// fields of a window for JSON.
func (c *correction) fields() object {
	value := func(ns float64) any {
		if c.Count == 0 {
			ns = math.NaN()
		}
		return finite(ns)
	}
	return object{
		{"corrected_count", c.Count}, {"corrected_p50_ns", finite(c.Quantile(0.5))}, {"corrected_p90_ns", finite(c.Quantile(0.9))},
		{"corrected_p99_ns", finite(c.Quantile(0.99))}, {"corrected_error_ns", value(c.bound)}, {"clock_offset_ns", value(c.offset)},
	}
}
