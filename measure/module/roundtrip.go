package module

import (
	"pillion.dev/measure"
	"pillion.dev/measure/point"
)

// RoundTrip measures the round-trip time by marks in the ordinary traffic of both directions. It needs
// marks of both directions, whose sequence numbers the other host echoes.
var RoundTrip = Register(Descriptor{
	Name: "round-trip", Doc: "round-trip time, split into network and other host (IPv6, encoding pdm)", Carrier: "echo",
	Schema: &measure.RoundTrips, Requires: []string{"both", "loss"},
	Columns: named("count", "refused", "rtt_min_ns", "rtt_mean_ns", "rtt_max_ns", "host_min_ns", "host_mean_ns", "host_max_ns",
		"network_min_ns", "network_mean_ns", "network_max_ns", "uncertainty_ns"),
	Views: []point.View{
		{Title: "Round trip", Kind: point.Lines, Stream: measure.RoundTrips.Name, Columns: []string{"rtt_mean_ns", "network_mean_ns", "host_mean_ns"},
			GroupBy: []string{"agent", "peer"}, Weight: "count"},
		{Title: "Round trips by flow", Kind: point.Table, Stream: measure.RoundTrips.Name,
			Columns: []string{"count", "rtt_min_ns", "rtt_mean_ns", "rtt_max_ns", "host_mean_ns", "network_min_ns", "network_mean_ns"},
			GroupBy: []string{"agent", "peer", "proto", "src", "sport", "dst", "dport"}},
	},
})
