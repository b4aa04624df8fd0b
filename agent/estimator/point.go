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
