package main

import (
	"time"

	"pillion.dev/measure"
)

// vitalsEvery is how often a host reports its load and clock: less often than agents,
// since nothing else depends on it.
const vitalsEvery = 30 * time.Second

// vitals sends a row of each stream about the host itself.
func (h *host) vitals(now time.Time) error {
	at := measure.TimeValue(now)
	number, count, share := measure.Int64Value, measure.Uint64Value, measure.Float64Value
	var none measure.Value
	by := none
	if h.synchronised() {
		by = measure.StringValue(h.clock)
	}
	load := 5 + 40*h.random.Float64()
	seconds := uint64(time.Since(h.started).Seconds()) + 1
	state := h.sending.State()
	for _, row := range []struct {
		schema *measure.Schema
		sample measure.Sample
	}{
		{&measure.Clock, measure.Sample{at, measure.BoolValue(h.synchronised()), number(int64(h.clockOffset(now))), number(h.maxErrorNs),
			number(h.maxErrorNs / 8), share(h.random.NormFloat64()), measure.Int32Value(37), by, none, number(0)}},
		{&measure.Host, measure.Sample{at, share(load), measure.Uint32Value(8), share(load / 12), count(16 << 30),
			count(uint64((4 + 4*h.random.Float64()) * (1 << 30))), count(0)}},
		{&measure.Interfaces, measure.Sample{at, measure.StringValue(device), count(seconds * 2_000_000), count(seconds * 1_500_000),
			count(seconds * 2500), count(seconds * 2000), count(0), count(0), count(0), count(0)}},
		{&measure.Agent, measure.Sample{at, share(0.4 + 0.3*h.random.Float64()), count(38 << 20), measure.Uint32Value(24),
			count(uint64(state.Batches)), count(uint64(state.Bytes)), count(uint64(state.DroppedBatches)), count(uint64(state.DroppedRows)),
			count(0), none, count(uint64(state.SentRows)), none, none}},
	} {
		if err := h.sending.Put(row.schema, row.sample); err != nil {
			return err
		}
	}
	return nil
}
