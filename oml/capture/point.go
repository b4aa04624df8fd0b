// Package capture captures packets on a device or reads them from a file, and reports
// their headers, a row per header: points radiotap, ethernet, ip, tcp and udp, joined by
// pkt_id.
//
// It reads headers only, never payloads, and changes no packet. Every packet is counted:
// as decoded, partially decoded, or skipped.
package capture

import "pillion.dev/measure"

// pktID is the first field after the time.
var pktID = measure.Field{Name: "pkt_id", Type: measure.Uint64, Unit: "guid", Doc: "packet ID, the same in the rows of all its headers"}

var device = measure.Field{Name: "device", Type: measure.String, Doc: "interface, or name of the file"}

// The points.
var (
	// Radiotap is the radiotap header of a frame.
	Radiotap = measure.Schema{Name: "pcap_radiotap", Doc: "captured packets: radiotap headers", Fields: []measure.Field{
		measure.TimeField, pktID, device,
		{Name: "tsft_us", Type: measure.Uint64, Unit: "us", Doc: "time of arrival by the radio's clock"},
		{Name: "rate_mbps", Type: measure.Float64, Unit: "Mbit/s", Doc: "data rate; null for 802.11n and later"},
		{Name: "freq_mhz", Type: measure.Uint32, Unit: "MHz", Doc: "channel frequency"},
		{Name: "signal_dbm", Type: measure.Int32, Unit: "dBm", Doc: "signal strength at the antenna"},
		{Name: "noise_dbm", Type: measure.Int32, Unit: "dBm", Doc: "noise at the antenna"},
		{Name: "tx_power_dbm", Type: measure.Int32, Unit: "dBm", Doc: "transmit power"},
		{Name: "antenna", Type: measure.Uint32, Doc: "antenna"},
		{Name: "bytes", Type: measure.Uint32, Unit: "bytes", Doc: "frame length including this header"},
	}}
	// Ethernet is the header of a frame.
	Ethernet = measure.Schema{Name: "pcap_ethernet", Doc: "captured packets: Ethernet headers", Fields: []measure.Field{
		measure.TimeField, pktID, device,
		{Name: "src", Type: measure.String, Doc: "source address"},
		{Name: "dst", Type: measure.String, Doc: "destination address"},
		{Name: "type", Type: measure.Uint32, Doc: "EtherType after VLAN tags; 0 for 802.3 frames"},
		{Name: "vlan", Type: measure.Uint32, Doc: "VLAN ID of the outermost tag; null without one"},
		{Name: "bytes", Type: measure.Uint32, Unit: "bytes", Doc: "frame length on the wire"},
	}}
	// IP is an IPv4 or IPv6 header, the outermost of a tunnelled packet.
	IP = measure.Schema{Name: "pcap_ip", Doc: "captured packets: IPv4 and IPv6 headers", Fields: []measure.Field{
		measure.TimeField, pktID, device,
		{Name: "version", Type: measure.Uint32, Doc: "4 or 6"},
		{Name: "src", Type: measure.String, Doc: "source address"},
		{Name: "dst", Type: measure.String, Doc: "destination address"},
		{Name: "proto", Type: measure.Uint32, Doc: "protocol number, after extension headers"},
		{Name: "tos", Type: measure.Uint32, Doc: "type of service or traffic class"},
		{Name: "ttl", Type: measure.Uint32, Doc: "time to live or hop limit"},
		{Name: "bytes", Type: measure.Uint32, Unit: "bytes", Doc: "length field of the header"},
		{Name: "id", Type: measure.Uint32, Doc: "identification; null for IPv6 without a fragment header"},
		{Name: "fragment_offset", Type: measure.Uint32, Unit: "bytes", Doc: "offset of the fragment"},
		{Name: "more_fragments", Type: measure.Bool, Doc: "more fragments follow"},
		{Name: "checksum", Type: measure.Uint32, Doc: "header checksum; null for IPv6"},
		{Name: "flow_label", Type: measure.Uint32, Doc: "flow label; null for IPv4"},
	}}
	// TCP is a TCP header.
	TCP = measure.Schema{Name: "pcap_tcp", Doc: "captured packets: TCP headers", Fields: []measure.Field{
		measure.TimeField, pktID, device,
		{Name: "sport", Type: measure.Uint32, Doc: "source port"},
		{Name: "dport", Type: measure.Uint32, Doc: "destination port"},
		{Name: "seq", Type: measure.Uint32, Doc: "sequence number"},
		{Name: "ack", Type: measure.Uint32, Doc: "acknowledgement number"},
		{Name: "flags", Type: measure.String, Doc: "flags that are set, as letters of FSRPAUECN"},
		{Name: "window", Type: measure.Uint32, Doc: "window, unscaled"},
		{Name: "checksum", Type: measure.Uint32, Doc: "checksum"},
		{Name: "urgent", Type: measure.Uint32, Doc: "urgent pointer"},
		{Name: "bytes", Type: measure.Uint32, Unit: "bytes", Doc: "length of header and data by the IP header"},
		{Name: "data_bytes", Type: measure.Uint32, Unit: "bytes", Doc: "length of the data"},
	}}
	// UDP is a UDP header.
	UDP = measure.Schema{Name: "pcap_udp", Doc: "captured packets: UDP headers", Fields: []measure.Field{
		measure.TimeField, pktID, device,
		{Name: "sport", Type: measure.Uint32, Doc: "source port"},
		{Name: "dport", Type: measure.Uint32, Doc: "destination port"},
		{Name: "bytes", Type: measure.Uint32, Unit: "bytes", Doc: "length field of the header"},
		{Name: "checksum", Type: measure.Uint32, Doc: "checksum"},
	}}
)

// Counts are the counters of a capture on a device; see Tally.
var Counts = measure.Schema{Name: "pcap_counts", Doc: "captures: packets by outcome since the start", Fields: []measure.Field{
	measure.TimeField, device,
	{Name: "seen", Type: measure.Uint64, Unit: "packets", Doc: "decoded, partial and skipped"},
	{Name: "decoded", Type: measure.Uint64, Unit: "packets", Doc: "with rows for every supported header"},
	{Name: "partial", Type: measure.Uint64, Unit: "packets", Doc: "with rows for outer headers but not for an inner one"},
	{Name: "skipped", Type: measure.Uint64, Unit: "packets", Doc: "without rows"},
	{Name: "dropped", Type: measure.Uint64, Unit: "packets", Doc: "by the kernel because its buffer was full"},
	{Name: "reasons", Type: measure.String, Doc: "why packets were partial or skipped, with counts"},
}}

// Points are the points of captured headers.
func Points() []*measure.Schema {
	return []*measure.Schema{&Radiotap, &Ethernet, &IP, &TCP, &UDP}
}
