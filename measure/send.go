package measure

var (
	// Send is what the sender did for sessions, by session, destination, traffic and interval.
	Send = Schema{Name: "send", Doc: "packets sent by sessions at exact times, by session, destination, traffic and interval", Fields: []Field{
		TimeField,
		{"session", String, "", "session that sends"},
		{"destination", String, "", "agent to which the packets are sent"},
		{"dst", String, "", "destination address"},
		{"traffic", String, "", "pattern or model of the packets"},
		{"interval_ns", Int64, "ns", "length of the window that ends at time"},
		{"scheduled", Uint64, "packets", "packets with a known outcome: sent + late_dropped + cancelled + failed"},
		{"sent", Uint64, "packets", "packets handed to the device"},
		{"late", Uint64, "packets", "packets sent later than the bound behind their intended departure"},
		{"late_dropped", Uint64, "packets", "packets dropped because they would have left too late"},
		{"cancelled", Uint64, "packets", "packets that the end of the task cancelled"},
		{"failed", Uint64, "packets", "packets that could not be sent"},
		{"failures", String, "", "why packets failed, with counts; null if none did"},
		{"bytes", Uint64, "bytes", "frame bytes sent, without frame check sequences"},
		{"rate_bits_per_second", Float64, "bit/s", "rate achieved within trains; null without two consecutive packets"},
		{"asked_bits_per_second", Float64, "bit/s", "rate that the schedule asks for within trains; null likewise, or if it asks for the maximum"},
		{"lateness_p50_ns", Float64, "ns", "median of the departure minus the intended departure; null if nothing was sent"},
		{"lateness_p99_ns", Float64, "ns", "99th percentile of it"},
		{"lateness_max_ns", Float64, "ns", "maximum of it"},
		{"interdeparture_error_p50_ns", Float64, "ns", "median absolute error of the time between two packets of a train; null without two consecutive packets"},
		{"interdeparture_error_p99_ns", Float64, "ns", "99th percentile of it"},
		{"interdeparture_error_max_ns", Float64, "ns", "maximum of it"},
		{"mechanism", String, "", "mechanism that sends"},
		{"remarks", String, "", "what limits the accuracy on this host; null if nothing does"},
	}}
	// SendPackets is a row for each packet of the sender.
	SendPackets = Schema{Name: "send_packets", Doc: "packets of the sender: intended and real departure", Fields: []Field{
		TimeField,
		{"session", String, "", "session that sends; empty by hand"},
		{"destination", String, "", "agent to which the packet is sent; empty by hand"},
		{"train", Uint64, "", "train of the packet, or flow of a model"},
		{"number", Uint64, "", "number of the packet in its train"},
		{"bytes", Uint64, "bytes", "length of the frame without its frame check sequence; 0 if it could not be built"},
		{"fate", String, "", "sent, late-dropped, cancelled or failed"},
		{"error", String, "", "why the packet failed; null otherwise"},
		{"late", Bool, "", "sent later than the bound behind the intended departure"},
		{"handed_ns", Int64, "ns", "handed to the device, after the intended departure; null unless sent"},
		{"driver_ns", Int64, "ns", "received by the driver, after the intended departure; null if unknown"},
		{"driver_source", String, "", "source of the driver's time: observer (a BPF program) or software (a transmit time stamp); null if unknown"},
		{"hardware_ns", Int64, "ns", "sent by the device, by its own clock, after the intended departure; null if unknown"},
		{"reply", String, "", "kind of the reply; null without one"},
		{"reply_from", String, "", "address of the reply; null likewise"},
		{"round_trip_ns", Int64, "ns", "from the departure to the kernel's receipt of the reply; null likewise"},
	}}
)
