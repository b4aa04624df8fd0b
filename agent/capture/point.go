// Package capture reads packets of a device or a file and reports their headers, a
// row for each header: points radiotap, ethernet, ip, tcp and udp, which pkt_id joins.
//
// It reads headers only, never what they carry, and changes no packet. Whatever a
// packet holds, it is counted: as decoded, as decoded in part, or as skipped.
package capture

import "pillion.dev/measure"

// pktID is the first field behind the time: the rows of one packet have the same.
var pktID = measure.Field{Name: "pkt_id", Type: measure.Uint64, Unit: "guid", Doc: "the packet; the rows of its headers have the same"}

var device = measure.Field{Name: "device", Type: measure.String, Doc: "interface, or the name of the file"}

// The points.
var (
	// Radiotap is what the radio said of a frame.
	Radiotap = measure.Schema{Name: "pcap_radiotap", Doc: "captured packets: what the radio said", Fields: []measure.Field{
		measure.TimeField, pktID, device,
		{Name: "tsft_us", Type: measure.Uint64, Unit: "us", Doc: "clock of the radio when the frame came"},
		{Name: "rate_mbps", Type: measure.Float64, Unit: "Mbit/s", Doc: "rate; null for rates of 802.11n and later"},
		{Name: "freq_mhz", Type: measure.Uint32, Unit: "MHz", Doc: "channel"},
		{Name: "signal_dbm", Type: measure.Int32, Unit: "dBm", Doc: "strength at the antenna"},
		{Name: "noise_dbm", Type: measure.Int32, Unit: "dBm", Doc: "noise at the antenna"},
		{Name: "tx_power_dbm", Type: measure.Int32, Unit: "dBm", Doc: "power it was sent with"},
		{Name: "antenna", Type: measure.Uint32, Unit: "", Doc: "antenna"},
		{Name: "bytes", Type: measure.Uint32, Unit: "bytes", Doc: "of the frame, with this header"},
	}}
	// Ethernet is the header of a frame.
	Ethernet = measure.Schema{Name: "pcap_ethernet", Doc: "captured packets: Ethernet", Fields: []measure.Field{
		measure.TimeField, pktID, device,
		{Name: "src", Type: measure.String, Unit: "", Doc: "source address"},
		{Name: "dst", Type: measure.String, Unit: "", Doc: "destination address"},
		{Name: "type", Type: measure.Uint32, Unit: "", Doc: "EtherType, behind VLAN tags; 0 for frames of 802.3"},
		{Name: "vlan", Type: measure.Uint32, Unit: "", Doc: "VLAN of the outermost tag; null without one"},
		{Name: "bytes", Type: measure.Uint32, Unit: "bytes", Doc: "of the frame, as it was on the wire"},
	}}
	// IP is an IPv4 or IPv6 header; of packets in packets the outermost.
	IP = measure.Schema{Name: "pcap_ip", Doc: "captured packets: IPv4 and IPv6", Fields: []measure.Field{
		measure.TimeField, pktID, device,
		{Name: "version", Type: measure.Uint32, Unit: "", Doc: "4 or 6"},
		{Name: "src", Type: measure.String, Unit: "", Doc: "source address"},
		{Name: "dst", Type: measure.String, Unit: "", Doc: "destination address"},
		{Name: "proto", Type: measure.Uint32, Unit: "", Doc: "protocol, behind extension headers"},
		{Name: "tos", Type: measure.Uint32, Unit: "", Doc: "type of service, traffic class"},
		{Name: "ttl", Type: measure.Uint32, Unit: "", Doc: "time to live, hop limit"},
		{Name: "bytes", Type: measure.Uint32, Unit: "bytes", Doc: "length that the header tells, with the header"},
		{Name: "id", Type: measure.Uint32, Unit: "", Doc: "identification; null in IPv6 without a fragment header"},
		{Name: "fragment_offset", Type: measure.Uint32, Unit: "bytes", Doc: "where the fragment begins"},
		{Name: "more_fragments", Type: measure.Bool, Unit: "", Doc: "others follow"},
		{Name: "checksum", Type: measure.Uint32, Unit: "", Doc: "of the header; null in IPv6"},
		{Name: "flow_label", Type: measure.Uint32, Unit: "", Doc: "null in IPv4"},
	}}
	// TCP is a TCP header.
	TCP = measure.Schema{Name: "pcap_tcp", Doc: "captured packets: TCP", Fields: []measure.Field{
		measure.TimeField, pktID, device,
		{Name: "sport", Type: measure.Uint32, Unit: "", Doc: "source port"},
		{Name: "dport", Type: measure.Uint32, Unit: "", Doc: "destination port"},
		{Name: "seq", Type: measure.Uint32, Unit: "", Doc: "sequence number"},
		{Name: "ack", Type: measure.Uint32, Unit: "", Doc: "acknowledgement number"},
		{Name: "flags", Type: measure.String, Unit: "", Doc: "letters of those set, of FSRPAUECN"},
		{Name: "window", Type: measure.Uint32, Unit: "", Doc: "window, not scaled"},
		{Name: "checksum", Type: measure.Uint32, Unit: "", Doc: "checksum"},
		{Name: "urgent", Type: measure.Uint32, Unit: "", Doc: "urgent pointer"},
		{Name: "bytes", Type: measure.Uint32, Unit: "bytes", Doc: "header and data, by the length in the IP header"},
		{Name: "data_bytes", Type: measure.Uint32, Unit: "bytes", Doc: "data alone"},
	}}
	// UDP is a UDP header.
	UDP = measure.Schema{Name: "pcap_udp", Doc: "captured packets: UDP", Fields: []measure.Field{
		measure.TimeField, pktID, device,
		{Name: "sport", Type: measure.Uint32, Unit: "", Doc: "source port"},
		{Name: "dport", Type: measure.Uint32, Unit: "", Doc: "destination port"},
		{Name: "bytes", Type: measure.Uint32, Unit: "bytes", Doc: "length that the header tells, with the header"},
		{Name: "checksum", Type: measure.Uint32, Unit: "", Doc: "checksum"},
	}}
)

// Counts is what an agent counted on a device; see Tally.
var Counts = measure.Schema{Name: "pcap_counts", Doc: "captures: what became of packets since they began", Fields: []measure.Field{
	measure.TimeField, device,
	{Name: "seen", Type: measure.Uint64, Unit: "packets", Doc: "decoded, partial and skipped"},
	{Name: "decoded", Type: measure.Uint64, Unit: "packets", Doc: "with rows for every header that is known"},
	{Name: "partial", Type: measure.Uint64, Unit: "packets", Doc: "with rows for outer headers, an inner one was not read"},
	{Name: "skipped", Type: measure.Uint64, Unit: "packets", Doc: "without rows"},
	{Name: "dropped", Type: measure.Uint64, Unit: "packets", Doc: "by the kernel, since the agent was too slow"},
	{Name: "reasons", Type: measure.String, Doc: "why packets were partial or skipped, with their numbers"},
}}

// Points are those of packets.
func Points() []*measure.Schema {
	return []*measure.Schema{&Radiotap, &Ethernet, &IP, &TCP, &UDP}
}
