package point

import (
	"time"

	"pillion.dev/measure"
)

// RouterCauses is the option of Router that records the causes of coffee breaks.
const RouterCauses = "causes"

// RouterPackets is the option of Router that records the packets of senders.
const RouterPackets = "packets"

// Router profiles the hosts that the session names as routers (seed 3).
var Router = Register(Descriptor{
	Name:   "router",
	Doc:    "where packets wait inside a router, its queues and its coffee breaks",
	Action: "profile packets that the host forwards",
	Cost: "about half a microsecond of processor time for each packet that a router forwards, " +
		"and about 5 rows in router each {interval} for each pair of its interfaces",
	Options: []Option{
		{Name: RouterCauses, Type: Switch, Default: "false",
			Doc: "record the causes of coffee breaks: what the processor did meanwhile, at the cost of two program runs per softirq and one per process switch"},
		{Name: RouterPackets, Type: Switch, Default: "false",
			Doc: "also store a row for each packet of a sender, in the stream router_packets, to be joined with send_packets"},
	},
	Schemas:     []*measure.Schema{&measure.Router, &measure.RouterQueues, &measure.RouterBreaks, &measure.RouterAccount, &measure.RouterPackets},
	Placement:   OnAgents,
	Match:       MatchAddresses,
	MinInterval: time.Second, // reading a profile costs milliseconds
	Views: []View{
		{Title: "Delay by stage", Kind: Lines, Stream: "router", Columns: []string{"delay_mean_ns", "delay_max_ns"},
			GroupBy: []string{"agent", "input", "output", "stage"}, Weight: "packets"},
		{Title: "Queues", Kind: Table, Stream: "router_queues",
			Columns: []string{"depth_mean", "depth_max", "arrivals", "departures", "waited_mean_ns"}, GroupBy: []string{"agent", "interface", "side"}},
		{Title: "Packets", Kind: Table, Stream: "router_account",
			Columns: []string{"seen", "forwarded", "dropped", "local", "merged", "lost", "in_flight"}, GroupBy: []string{"agent"}},
	},
})
