package measure

// ClockPairs are the server's estimates of how far apart the clocks of two hosts are.
var ClockPairs = Schema{Name: "clock_pairs", Doc: "offset and drift between the clocks of two hosts, estimated by the server from their minimum delays; a delay of flows minus the offset at its time is the corrected one", Fields: []Field{
	{TimeField.Name, TimeField.Type, TimeField.Unit, "latest delay on which the estimate rests, by the destination's clock"},
	{"source", String, "", "agent that marked the packets"},
	{"destination", String, "", "agent that read the marks"},
	{"segment", Time, "", "first delay since either clock was last set: estimates of one segment have the same"},
	{"since", Time, "", "earliest delay on which the estimate rests"},
	{"offset_ns", Float64, "ns", "clock of the destination minus clock of the source, at time; with one direction only, its drift since the segment began"},
	{"offset_bound_ns", Float64, "ns", "error bound of the offset from since to time; null if only one direction was measured"},
	{"skew_ppb", Float64, "ppb", "rate at which the offset grows, ns per second"},
	{"skew_bound_ppb", Float64, "ppb", "error bound of the rate"},
	{"drift_ns", Float64, "ns", "drift within half an interval of the rows, within which delays are not corrected"},
	{"points", Uint32, "", "minimum delays on which the estimate rests, of both directions"},
	{"directions", Uint32, "", "2, or 1 if only one direction was measured: the offset is then unknown"},
}}

func init() { AddStandard(&ClockPairs) }
