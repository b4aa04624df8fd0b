package measure

// HopDelays are one-way delays from hop to hop, of packets in which the routers on the way
// wrote when they forwarded them (IOAM trace, RFC 9197): for each interval, pair of addresses
// and path a row for each hop, and one for the whole path as hop 0.
var HopDelays = Schema{Name: "hop_delays", Doc: "one-way delay of each hop of a path, by session, pair of addresses, path and interval (IOAM trace)", Fields: []Field{
	TimeField,
	{"session", String, "", "session that requested the row"},
	{"source", String, "", "agent that sent the packets; empty if unknown"},
	{"device", String, "", "interface on which the traces were read"},
	{"src", String, "", "source address"},
	{"dst", String, "", "destination address"},
	{"path", String, "", "identifiers of the nodes on the way, in order; after a node that wrote no time comes a question mark; other: paths beyond the first 64 of a pair and interval, of which only hop 0 is kept"},
	{"hop", Uint32, "", "from 1 at the source to the one that ends at the destination; 0: the whole path, of the same packets"},
	{"node", String, "", "identifier of the node at which the hop ends, such as 0x000101; empty: the destination"},
	{"previous", String, "", "identifier of the last node before it that wrote a time; empty: the source"},
	{"skipped", Uint32, "", "routers between the two that wrote nothing, according to the hop limit; null if unknown, as at the first and the last hop"},
	{"interval_ns", Int64, "ns", "length of the window that ends at time"},
	{"packets", Uint64, "packets", "packets whose trace was read"},
	{"overflowed", Uint64, "packets", "of these, packets whose trace had no room for a further node: the last hop begins at the last node that had"},
	{"delay_count", Uint64, "packets", "of these, packets with a delay of this hop: both ends wrote a time"},
	{"delay_min_ns", Int64, "ns", "minimum one-way delay; negative if the clocks disagree"},
	{"delay_mean_ns", Int64, "ns", "mean one-way delay"},
	{"delay_p50_ns", Int64, "ns", "median one-way delay"},
	{"delay_p99_ns", Int64, "ns", "99th percentile of one-way delay"},
	{"delay_max_ns", Int64, "ns", "maximum one-way delay"},
	{"uncertainty_ns", Int64, "ns", "bound of the error of each delay due to the resolution of the time stamps: routers cut theirs to whole microseconds"},
	{"clock_error_ns", Int64, "ns", "error bound of the two clocks together; null if one is unknown, as a router's clock is here"},
}}

func init() { AddStandard(&HopDelays) }
