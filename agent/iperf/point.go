// Package iperf runs iperf3 and reports its results: a row per interval and per stream
// of an interval, with its version and command line as metadata.
//
// The numbers are iperf3's own. Its output is read while it runs if it supports
// --json-stream (3.17), otherwise at the end.
package iperf

import "pillion.dev/measure"

// measured are the columns that intervals and streams have in common.
var measured = []measure.Field{
	{Name: "start", Type: measure.Float64, Unit: "s", Doc: "start of the interval since the start of the test"},
	{Name: "end", Type: measure.Float64, Unit: "s", Doc: "end of the interval"},
	{Name: "seconds", Type: measure.Float64, Unit: "s", Doc: "length of the interval"},
	{Name: "bytes", Type: measure.Uint64, Unit: "bytes", Doc: "bytes sent or received"},
	{Name: "bits_per_second", Type: measure.Float64, Unit: "bit/s", Doc: "goodput"},
	{Name: "retransmits", Type: measure.Uint64, Unit: "segments", Doc: "retransmitted segments; null at a receiver and for UDP"},
	{Name: "jitter_ms", Type: measure.Float64, Unit: "ms", Doc: "jitter (RFC 1889); null for TCP and at a sender"},
	{Name: "lost_packets", Type: measure.Int64, Unit: "packets", Doc: "lost packets; null for TCP and at a sender"},
	{Name: "packets", Type: measure.Uint64, Unit: "packets", Doc: "packets sent, or expected at a receiver; null for TCP"},
	{Name: "sender", Type: measure.Bool, Doc: "this end is the sender"},
	{Name: "omitted", Type: measure.Bool, Doc: "within the time skipped by --omit"},
}

// The points.
var (
	// Interval is the sum of all streams of one direction.
	Interval = measure.Schema{
		Name: "iperf3_interval", Doc: "iperf3: intervals, sum of all streams of a direction",
		Fields: append([]measure.Field{measure.TimeField}, measured...),
	}
	// Stream is one stream in one interval.
	Stream = measure.Schema{
		Name: "iperf3_stream", Doc: "iperf3: intervals by stream",
		Fields: append(append([]measure.Field{measure.TimeField, {Name: "socket", Type: measure.Int64, Doc: "number of the stream"}}, measured...),
			measure.Field{Name: "snd_cwnd", Type: measure.Uint64, Unit: "bytes", Doc: "congestion window; null at a receiver and for UDP"},
			measure.Field{Name: "rtt_us", Type: measure.Uint64, Unit: "us", Doc: "smoothed round-trip time of TCP; null like snd_cwnd"},
			measure.Field{Name: "rttvar_us", Type: measure.Uint64, Unit: "us", Doc: "variation of the round-trip time; null like snd_cwnd"}),
	}
)

// Points are all points of this package.
func Points() []*measure.Schema { return []*measure.Schema{&Interval, &Stream} }
