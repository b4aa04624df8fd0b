package module

import "pillion.dev/measure"

// The modules that every mark can carry; their figures are in the rows of flows.
var (
	// Delay is one-way delay and its variation.
	Delay = Register(Descriptor{
		Name: "delay", Doc: "one-way delay and delay variation", Carrier: "time", Schema: &measure.Flows, Clocks: "source and destination",
		Columns: named("delay_count", "delay_min_ns", "delay_mean_ns", "delay_p50_ns", "delay_p90_ns", "delay_p99_ns", "delay_max_ns",
			"ipdv_count", "ipdv_min_ns", "ipdv_mean_ns", "ipdv_p50_ns", "ipdv_p90_ns", "ipdv_p99_ns", "ipdv_max_ns"),
	})
	// Loss is loss, duplication and reordering.
	Loss = Register(Descriptor{
		Name: "loss", Doc: "loss, duplication and reordering", Carrier: "number", Schema: &measure.Flows,
		Columns: named("expected", "lost", "duplicated", "reordered", "late"),
	})
)

func named(names ...string) []Column {
	var columns []Column
	for _, name := range names {
		columns = append(columns, Column{Field: measure.Field{Name: name}})
	}
	return columns
}
