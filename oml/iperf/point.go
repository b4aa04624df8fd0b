// Package iperf runs iperf3 and reports its results: a row per interval and per stream
// of an interval, OML's points transfer, losses and jitter, or a row per packet; with its
// version and command line as metadata.
//
// The numbers are iperf3's own. Its output is read while it runs if it supports
// --json-stream (3.17), otherwise at the end.
package iperf

import "pillion.dev/measure"

// measured are the columns that intervals and streams have in common.
var measured = []measure.Field{
	{Name: "start", Type: measure.Float64, Unit: "s", Doc: "start of the interval since the start of the test, or since the end of the time skipped by --omit"},
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

// connection are the columns that the points of OML's iperf have in common.
func connection(doc string, fields ...measure.Field) []measure.Field {
	return append([]measure.Field{
		measure.TimeField,
		{Name: "pid", Type: measure.Uint32, Doc: "process ID of iperf3"},
		{Name: "connection_id", Type: measure.Int64, Doc: doc},
	}, fields...)
}

// aggregate returns the fields of iperf's aggregates.
func aggregate(fields ...measure.Field) []measure.Field {
	return connection("number of the stream", append([]measure.Field{
		{Name: "begin_interval", Type: measure.Float64, Unit: "s", Doc: "start of the interval since the start of the test, or since the end of the time skipped by --omit"},
		{Name: "end_interval", Type: measure.Float64, Unit: "s", Doc: "end of the interval"},
	}, fields...)...)
}

// The points of OML's iperf: aggregates, as of its option -y o, and packets, as of -y O.
var (
	Transfer = measure.Schema{Name: "iperf_transfer", Doc: "OML iperf: bytes transferred in an interval", Fields: aggregate(
		measure.Field{Name: "size", Type: measure.Uint64, Unit: "bytes", Doc: "bytes sent or received"},
	)}
	Losses = measure.Schema{Name: "iperf_losses", Doc: "OML iperf: lost datagrams; only of a receiver of UDP", Fields: aggregate(
		measure.Field{Name: "total_datagrams", Type: measure.Uint64, Unit: "packets", Doc: "datagrams expected"},
		measure.Field{Name: "lost_datagrams", Type: measure.Int64, Unit: "packets", Doc: "datagrams lost of these"},
	)}
	Jitter = measure.Schema{Name: "iperf_jitter", Doc: "OML iperf: jitter (RFC 1889); only of a receiver of UDP", Fields: aggregate(
		measure.Field{Name: "jitter", Type: measure.Float64, Unit: "ms", Doc: "jitter at the end of the interval"},
	)}
	// Packets of UDP, from a capture: the sent time is in each datagram. Where a time is not
	// known it is null, and 0 at a collector.
	Packets = measure.Schema{Name: "iperf_packets", Doc: "OML iperf: datagrams sent or received", Fields: connection("port of the client",
		measure.Field{Name: "packet_id", Type: measure.Uint64, Doc: "number of the datagram in its stream, from 1"},
		measure.Field{Name: "packet_size", Type: measure.Uint32, Unit: "bytes", Doc: "UDP payload"},
		measure.Field{Name: "sent_us", Type: measure.Int64, Unit: "us", Doc: "time since 1970 at which iperf3 sent it, by the sender's clock; null of another host whose iperf3 (from 3.7) counts from its boot"},
		measure.Field{Name: "received_us", Type: measure.Int64, Unit: "us", Doc: "time since 1970 at which the kernel received it; null at the sender"},
		measure.Field{Name: "transit_us", Type: measure.Int64, Unit: "us", Doc: "received less sent, which includes the difference of the clocks: with iperf3 from 3.7 on another host an unknown constant, so that only differences between packets mean something; null at the sender"},
	)}
)

// Style is what is reported.
type Style string

// The styles.
const (
	Intervals  Style = "intervals"  // iperf3's own numbers: Interval and Stream
	Aggregates Style = "aggregates" // Transfer, Losses and Jitter
	PerPacket  Style = "packets"    // Packets
)

// App is the name of the application that the points of a style belong to.
func (s Style) App() string {
	if s == Aggregates || s == PerPacket {
		return "iperf"
	}
	return "iperf3"
}

// Points are the points of a style.
func (s Style) Points() []*measure.Schema {
	switch s {
	case Aggregates:
		return []*measure.Schema{&Transfer, &Losses, &Jitter}
	case PerPacket:
		return []*measure.Schema{&Packets}
	}
	return []*measure.Schema{&Interval, &Stream}
}
