package measure

// RoundTrips are round-trip times within ordinary traffic: of packets with a number (PDM, RFC 8250)
// whose first answer in the flow that returns said which packet it answers and how long its host
// kept it. All times are by the source's clock, except for the part of the host.
var RoundTrips = Schema{Name: "round_trips", Doc: "round-trip time, and its parts in the network and in the other host, by session, flow and interval (PDM, RFC 8250)", Fields: []Field{
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
	{"count", Uint64, "packets", "packets whose first answer came; of a fast flow a sample"},
	{"refused", Uint64, "packets", "answers whose host says that it kept them for longer than the round trip took"},
	{"rtt_min_ns", Int64, "ns", "minimum round-trip time, from the departure of a packet to the arrival of its first answer; null without answers"},
	{"rtt_mean_ns", Int64, "ns", "mean round-trip time"},
	{"rtt_max_ns", Int64, "ns", "maximum round-trip time"},
	{"host_min_ns", Int64, "ns", "minimum time from the arrival of a packet at the other host to the departure of the answer"},
	{"host_mean_ns", Int64, "ns", "mean of these times"},
	{"host_max_ns", Int64, "ns", "maximum of these times"},
	{"network_min_ns", Int64, "ns", "minimum of what is left of the round-trip time: both ways through the network"},
	{"network_mean_ns", Int64, "ns", "mean of this rest"},
	{"network_max_ns", Int64, "ns", "maximum of this rest"},
	{"uncertainty_ns", Int64, "ns", "by how much the time of the other host may be too small, and the rest too large: a packet carries 16 bits of it"},
}}

func init() { AddStandard(&RoundTrips) }
