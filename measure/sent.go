package measure

// Sent has a row for each flow of a session of which a source sent numbered packets in an interval.
// A destination detects a lost packet when a packet with a higher number arrives; with these rows it
// also detects losses after which no packet arrives.
var Sent = Schema{Name: "sent_flows", Doc: "packets that a source numbered, by session, flow and interval; destinations count from it what nothing follows as lost", Fields: []Field{
	TimeField,
	{"session", String, "", "session that requested the row"},
	{"peer", String, "", "agent at the destination address"},
	{"device", String, "", "interface on which the packets left"},
	{"src", String, "", "source address"},
	{"dst", String, "", "destination address"},
	{"proto", String, "", "IP protocol by name or number"},
	{"sport", Uint32, "", "source port"},
	{"dport", Uint32, "", "destination port"},
	{"interval_ns", Int64, "ns", "length of the window that ends at time"},
	{"packets", Uint64, "packets", "packets with a number: marked ones, and others of flows with sparse marks; in a row of a block, packets of its colour"},
	{"number_start", Uint32, "", "number with which the flow began at this source; a flow that begins anew has another one; null in a row of a block"},
	{"number_first", Uint32, "", "number of the first of these packets, modulo 2^31; null in a row of a block"},
	{"number_next", Uint32, "", "number that the next packet will have; null in a row of a block"},
	{"block", Uint64, "", "block of packets of one colour (altmark), whose length is interval_ns: 0 begins in 1970; null for encodings with sequence numbers"},
	{"marked_ns", Int64, "ns", "when the block's packet left whose delay is measured, since 1970; null without one, and for encodings with sequence numbers"},
}}

func init() { AddStandard(&Sent) }
