package estimator

import (
	"strings"
	"time"

	"pillion.dev/measure"
	"pillion.dev/send/estimate"
)

// Fields that the results have in common.
var (
	layerField     = measure.Field{Name: "layer", Type: measure.String, Doc: "what the rates count: ip (packets), frame (Ethernet without frame check sequence) or wire (with preamble, check sequence and gap)"}
	directionField = measure.Field{Name: "direction", Type: measure.String, Doc: "forward, or round trip if replies were received"}
	findingsField  = measure.Field{Name: "findings", Type: measure.String, Doc: "assumptions that the samples contradict; null if none"}
)

func rateField(name, doc string) measure.Field {
	return measure.Field{Name: name, Type: measure.Float64, Unit: "bit/s", Doc: doc}
}

// Capacities is the point of estimated capacities, a row each.
var Capacities = measure.Schema{
	Name: "send_capacity", Doc: "capacity of a path by the dispersion of packet pairs and trains",
	Fields: []measure.Field{
		measure.TimeField,
		rateField("capacity_bps", "rate of the narrowest link; null if not valid"),
		rateField("low_bps", "lower bound of its 95 % interval; null likewise"),
		rateField("high_bps", "upper bound; null likewise"),
		rateField("dispersion_bps", "mean rate of long trains, between available bandwidth and capacity; null without trains"),
		{Name: "samples", Type: measure.Uint64, Doc: "gaps used"},
		{Name: "lossy", Type: measure.Uint64, Doc: "trains left out because packets were lost"},
		{Name: "reordered", Type: measure.Uint64, Doc: "trains left out because packets were reordered"},
		layerField, directionField, findingsField,
	},
}

func capacityRow(at time.Time, r *capacityResult) measure.Sample {
	c := r.Capacity
	row := measure.Sample{
		measure.TimeValue(at), measure.Value{}, measure.Value{}, measure.Value{}, measure.Value{},
		measure.Uint64Value(uint64(c.Samples)), measure.Uint64Value(uint64(c.Lossy)), measure.Uint64Value(uint64(c.Reordered)),
		measure.StringValue(string(r.Layer)), measure.StringValue(r.Direction), findings(c.Findings),
	}
	if c.Valid {
		row[1], row[2], row[3] = measure.Float64Value(c.Rate.Value), measure.Float64Value(c.Rate.Low), measure.Float64Value(c.Rate.High)
	}
	if c.DispersionRate.Value > 0 {
		row[4] = measure.Float64Value(c.DispersionRate.Value)
	}
	return row
}

func findings(list []estimate.Finding) measure.Value {
	if len(list) == 0 {
		return measure.Value{}
	}
	var texts []string
	for _, f := range list {
		texts = append(texts, string(f.Assumption)+": "+f.Detail)
	}
	return measure.StringValue(strings.Join(texts, "; "))
}

// Availables is the point of estimated available bandwidths, a row each.
var Availables = measure.Schema{
	Name: "send_available", Doc: "available bandwidth of a path by self-loading streams or chirps",
	Fields: []measure.Field{
		measure.TimeField,
		{Name: "method", Type: measure.String, Doc: "slops or chirp"},
		rateField("available_bps", "estimate of chirps; null with streams, which only give a range, and if not valid"),
		rateField("low_bps", "lower bound; null if not valid"),
		rateField("high_bps", "upper bound; null likewise"),
		layerField, directionField, findingsField,
	},
}

func availableRow(at time.Time, r *availableResult) measure.Sample {
	row := measure.Sample{
		measure.TimeValue(at), measure.StringValue(r.Method), measure.Value{}, measure.Value{}, measure.Value{},
		measure.StringValue(string(r.Layer)), measure.StringValue(r.Direction), findings(r.findings),
	}
	if r.Valid {
		row[3], row[4] = measure.Float64Value(r.Low), measure.Float64Value(r.High)
		if r.Method == Chirp {
			row[2] = measure.Float64Value(r.Value)
		}
	}
	return row
}

// Hops is the point of estimated links, a row for each hop.
var Hops = measure.Schema{
	Name: "send_hops", Doc: "links of a path by round-trip times of packets of several sizes to each router",
	Fields: []measure.Field{
		measure.TimeField,
		{Name: "hop", Type: measure.Uint64, Doc: "number of the hop, from 1"},
		{Name: "router", Type: measure.String, Doc: "address that replied; null if none did"},
		rateField("capacity_bps", "rate of the link before the router; null if not valid"),
		rateField("low_bps", "lower bound of its 95 % interval; null if unknown"),
		rateField("high_bps", "upper bound; null if not valid"),
		{Name: "round_trip_ns", Type: measure.Int64, Unit: "ns", Doc: "least round-trip time, without the time that depends on the size; null without enough replies"},
		{Name: "queue_ns", Type: measure.Int64, Unit: "ns", Doc: "median time in queues, beyond that up to the hop before; null likewise"},
		{Name: "replies", Type: measure.Uint64, Doc: "replies used"},
		findingsField,
	},
}

func hopRow(at time.Time, h *hop) measure.Sample {
	row := measure.Sample{
		measure.TimeValue(at), measure.Uint64Value(uint64(h.Number)), measure.Value{}, measure.Value{}, measure.Value{}, measure.Value{},
		measure.Value{}, measure.Value{}, measure.Uint64Value(uint64(h.Samples)), findings(h.Findings),
	}
	if h.Router != "" {
		row[2] = measure.StringValue(h.Router)
	}
	if h.Rate.Low > 0 {
		row[4] = measure.Float64Value(h.Rate.Low)
	}
	if h.Valid {
		row[3], row[5] = measure.Float64Value(h.Rate.Value), measure.Float64Value(h.Rate.High)
	}
	if h.RoundTripNS > 0 {
		row[6], row[7] = measure.Int64Value(int64(h.RoundTripNS)), measure.Int64Value(int64(h.QueueNS))
	}
	return row
}
