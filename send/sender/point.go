package sender

import (
	"time"

	"pillion.dev/measure"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/reply"
)

// Owner is for whom packets are sent; the zero value: a user, by hand.
type Owner struct {
	Session     string
	Destination string // agent
	// Header of all packets; nil: they have several, or frames of their own.
	Header *frame.Header
}

// PacketRow is the row of measure.SendPackets for a packet, with its reply, if any; its time
// is the intended departure. Offset is the real-time minus the monotonic clock.
func PacketRow(owner Owner, r dispatch.Record, got *reply.Reply, late bool, offset time.Duration) measure.Sample {
	sample := measure.Sample{
		measure.TimeValue(time.Unix(0, r.Intended+int64(offset))), measure.StringValue(owner.Session), measure.StringValue(owner.Destination),
	}
	sample = append(sample, addresses(owner.Header)...)
	sample = append(sample, measure.Uint64Value(uint64(r.Train)), measure.Uint64Value(uint64(r.Number)),
		measure.Uint64Value(uint64(r.Bytes)), measure.StringValue(r.Fate.String()))
	var fault, handed, driver, source, hardware measure.Value
	if r.Error != nil {
		fault = measure.StringValue(r.Error.Error())
	}
	if r.Handed != 0 {
		handed = measure.Int64Value(r.Handed - r.Intended)
	}
	if r.Driver != 0 {
		driver, source = measure.Int64Value(r.Driver-r.Intended), measure.StringValue(r.Source.String())
	}
	if r.Hardware != 0 {
		hardware = measure.Int64Value(r.Hardware - r.Intended)
	}
	sample = append(sample, fault, measure.BoolValue(late), handed, driver, source, hardware)
	if got == nil {
		return append(sample, make([]measure.Value, 3)...)
	}
	return append(sample, measure.StringValue(string(got.Kind)), measure.StringValue(got.From.String()), measure.Int64Value(got.At-r.Departure()))
}

// addresses are the columns src, dst, sport and dport: null without a header, the ports also
// without UDP or TCP.
func addresses(h *frame.Header) []measure.Value {
	values := make([]measure.Value, 4)
	if h == nil {
		return values
	}
	values[0], values[1] = measure.StringValue(h.Source.String()), measure.StringValue(h.Destination.String())
	if h.Protocol == frame.UDP || h.Protocol == frame.TCP || h.Protocol == "" {
		values[2], values[3] = measure.Uint32Value(uint32(h.SourcePort)), measure.Uint32Value(uint32(h.DestinationPort))
	}
	return values
}
