package module

import (
	"pillion.dev/measure"
	"pillion.dev/measure/point"
)

// Segments are the delays of the two segments of a path that a waypoint divides: the waypoint
// writes the time of arrival into marks and leaves them (RFC 7679 for each segment).
var Segments = Register(Descriptor{
	Name: "segments", Doc: "one-way delay up to a waypoint on the path, and from there on", Carrier: "time", State: 1,
	Schema: segmentsSchema(), Requires: []string{"delay", "waypoints"},
	Columns: segmentColumns(), Labels: segmentLabels, Clocks: "source, waypoint and destination",
	Views: []point.View{
		{Title: "Delay by segment", Kind: point.Lines, Stream: "segments", Columns: []string{"first_mean_ns", "second_mean_ns"},
			GroupBy: []string{"source", "waypoint", "agent"}, Weight: "count"},
		{Title: "Segments by flow", Kind: point.Table, Stream: "segments",
			Columns: []string{"count", "first_min_ns", "first_mean_ns", "first_max_ns", "second_min_ns", "second_mean_ns", "second_max_ns"},
			GroupBy: []string{"source", "waypoint", "agent", "proto", "src", "sport", "dst", "dport"}},
	},
})

var segmentLabels = []measure.Field{
	{Name: WaypointLabel, Type: measure.String, Doc: "agent that wrote the time; empty if the session has several waypoints, since marks do not name it"},
}

// WaypointLabel is the column with the name of the waypoint.
const WaypointLabel = "waypoint"

// segmentColumns show the words that segment_enter of probe/destination/segment.h enters.
func segmentColumns() []Column {
	const first, second = 0, 4
	ns := func(name, doc string, word int, as Aggregate, by int) Column {
		return Column{Field: measure.Field{Name: name, Type: measure.Int64, Unit: "ns", Doc: doc}, Word: word, As: as, By: by}
	}
	return []Column{
		{Field: measure.Field{Name: "count", Type: measure.Uint64, Unit: "packets", Doc: "packets with a time of the waypoint"}, Word: first, As: Sum},
		ns("first_min_ns", "minimum one-way delay from the source to the waypoint; negative if their clocks disagree", first+2, Min, first),
		ns("first_mean_ns", "mean one-way delay from the source to the waypoint", first+1, Mean, first),
		ns("first_max_ns", "maximum one-way delay from the source to the waypoint", first+3, Max, first),
		ns("second_min_ns", "minimum one-way delay from the waypoint to the destination; negative if their clocks disagree", second+2, Min, second),
		ns("second_mean_ns", "mean one-way delay from the waypoint to the destination", second+1, Mean, second),
		ns("second_max_ns", "maximum one-way delay from the waypoint to the destination", second+3, Max, second),
	}
}

func segmentsSchema() *measure.Schema {
	d := Descriptor{Name: "segments", Doc: "one-way delay of the segments of paths with a waypoint", Columns: segmentColumns(), Labels: segmentLabels}
	return d.schema()
}
