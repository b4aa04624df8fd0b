package sender

import (
	"time"

	"pillion.dev/measure"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/reply"
)

// Packets is the point of sent packets, a row each.
var Packets = measure.Schema{
	Name: "send_packets", Doc: "packets of the sender: intended and real departure",
	Fields: []measure.Field{
		measure.TimeField,
		{Name: "train", Type: measure.Uint64, Doc: "train of the packet, or flow of a model"},
		{Name: "number", Type: measure.Uint64, Doc: "number of the packet in its train"},
		{Name: "bytes", Type: measure.Uint64, Unit: "bytes", Doc: "length of the frame without its frame check sequence; 0 if it could not be built"},
		{Name: "fate", Type: measure.String, Doc: "sent, late-dropped, cancelled or failed"},
		{Name: "error", Type: measure.String, Doc: "why the packet failed; null otherwise"},
		{Name: "late", Type: measure.Bool, Doc: "sent later than the bound behind the intended departure"},
		{Name: "handed_ns", Type: measure.Int64, Unit: "ns", Doc: "handed to the device, after the intended departure; null unless sent"},
		{Name: "driver_ns", Type: measure.Int64, Unit: "ns", Doc: "received by the driver, after the intended departure; null if unknown"},
		{Name: "reply", Type: measure.String, Doc: "kind of the reply; null without one"},
		{Name: "reply_from", Type: measure.String, Doc: "address of the reply; null likewise"},
		{Name: "round_trip_ns", Type: measure.Int64, Unit: "ns", Doc: "from the departure to the kernel's receipt of the reply; null likewise"},
	},
}

// packetRow is a packet's; its time is the intended departure. Offset is the real-time minus the
// monotonic clock.
func packetRow(r dispatch.Record, got *reply.Reply, late bool, offset time.Duration) measure.Sample {
	sample := measure.Sample{
		measure.TimeValue(time.Unix(0, r.Intended+int64(offset))), measure.Uint64Value(uint64(r.Train)), measure.Uint64Value(uint64(r.Number)),
		measure.Uint64Value(uint64(r.Bytes)), measure.StringValue(r.Fate.String()), measure.Value{}, measure.BoolValue(late),
		measure.Value{}, measure.Value{}, measure.Value{}, measure.Value{}, measure.Value{},
	}
	if r.Error != nil {
		sample[5] = measure.StringValue(r.Error.Error())
	}
	if r.Handed != 0 {
		sample[7] = measure.Int64Value(r.Handed - r.Intended)
	}
	if r.Driver != 0 {
		sample[8] = measure.Int64Value(r.Driver - r.Intended)
	}
	if got != nil {
		sample[9], sample[10], sample[11] = measure.StringValue(string(got.Kind)), measure.StringValue(got.From.String()), measure.Int64Value(got.At-r.Departure())
	}
	return sample
}
