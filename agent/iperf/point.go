// Package iperf runs iperf3 and reports what it measures: a row for each interval and
// for each stream of an interval, with its version and command line as metadata.
//
// The numbers are iperf3's own. Where it can, it is read while it runs (--json-stream,
// 3.17); otherwise at its end.
package iperf

import "pillion.dev/measure"

// measured are the columns that intervals and streams have in common.
var measured = []measure.Field{
	{Name: "start", Type: measure.Float64, Unit: "s", Doc: "of the interval, since the test began"},
	{Name: "end", Type: measure.Float64, Unit: "s", Doc: "of the interval"},
	{Name: "seconds", Type: measure.Float64, Unit: "s", Doc: "its length"},
	{Name: "bytes", Type: measure.Uint64, Unit: "bytes", Doc: "sent or received"},
	{Name: "bits_per_second", Type: measure.Float64, Unit: "bit/s", Doc: "goodput"},
	{Name: "retransmits", Type: measure.Uint64, Unit: "segments", Doc: "sent again; null at a receiver and for UDP"},
	{Name: "jitter_ms", Type: measure.Float64, Unit: "ms", Doc: "jitter (RFC 1889); null for TCP and at a sender"},
	{Name: "lost_packets", Type: measure.Int64, Unit: "packets", Doc: "missing; null for TCP and at a sender"},
	{Name: "packets", Type: measure.Uint64, Unit: "packets", Doc: "sent, or expected at a receiver; null for TCP"},
	{Name: "sender", Type: measure.Bool, Unit: "", Doc: "this end sends"},
	{Name: "omitted", Type: measure.Bool, Unit: "", Doc: "within the time that --omit leaves out"},
}

// The points.
var (
	// Interval is the sum of all streams of one direction.
	Interval = measure.Schema{
		Name: "iperf3_interval", Doc: "iperf3: intervals, all streams of a direction together",
		Fields: append([]measure.Field{measure.TimeField}, measured...),
	}
	// Stream is one stream in one interval.
	Stream = measure.Schema{
		Name: "iperf3_stream", Doc: "iperf3: intervals, stream by stream",
		Fields: append(append([]measure.Field{measure.TimeField, {Name: "socket", Type: measure.Int64, Doc: "number of the stream"}}, measured...),
			measure.Field{Name: "snd_cwnd", Type: measure.Uint64, Unit: "bytes", Doc: "congestion window; null at a receiver and for UDP"},
			measure.Field{Name: "rtt_us", Type: measure.Uint64, Unit: "us", Doc: "round-trip time that TCP sees; null as snd_cwnd"},
			measure.Field{Name: "rttvar_us", Type: measure.Uint64, Unit: "us", Doc: "its variation; null as snd_cwnd"}),
	}
)

// Points are all of them.
func Points() []*measure.Schema { return []*measure.Schema{&Interval, &Stream} }
