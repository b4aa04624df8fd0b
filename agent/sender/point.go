package sender

import (
	"time"

	"pillion.dev/measure"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/reply"
)

// Owner is for whom packets are sent; the zero value: a user, by hand.
type Owner struct {
	Session     string
	Destination string // agent
}

// PacketRow is the row of measure.SendPackets for a packet, with its reply, if any; its time
// is the intended departure. Offset is the real-time minus the monotonic clock.
func PacketRow(owner Owner, r dispatch.Record, got *reply.Reply, late bool, offset time.Duration) measure.Sample {
	sample := measure.Sample{
		measure.TimeValue(time.Unix(0, r.Intended+int64(offset))), measure.StringValue(owner.Session), measure.StringValue(owner.Destination),
		measure.Uint64Value(uint64(r.Train)), measure.Uint64Value(uint64(r.Number)),
		measure.Uint64Value(uint64(r.Bytes)), measure.StringValue(r.Fate.String()), measure.Value{}, measure.BoolValue(late),
		measure.Value{}, measure.Value{}, measure.Value{}, measure.Value{}, measure.Value{}, measure.Value{}, measure.Value{},
	}
	if r.Error != nil {
		sample[7] = measure.StringValue(r.Error.Error())
	}
	if r.Handed != 0 {
		sample[9] = measure.Int64Value(r.Handed - r.Intended)
	}
	if r.Driver != 0 {
		sample[10], sample[11] = measure.Int64Value(r.Driver-r.Intended), measure.StringValue(r.Source.String())
	}
	if r.Hardware != 0 {
		sample[12] = measure.Int64Value(r.Hardware - r.Intended)
	}
	if got != nil {
		sample[13], sample[14], sample[15] = measure.StringValue(string(got.Kind)), measure.StringValue(got.From.String()), measure.Int64Value(got.At-r.Departure())
	}
	return sample
}
