package measure

import (
	"slices"
	"sync"
)

// Streams that Pillion itself makes. The agent column, who delivered a row, is put
// before them by the archive.
var (
	// Flows is what the in-line probes read: a row for each group of flows of a
	// session and interval (RFC 7679, 7680, 5560, 4737, 3393).
	Flows = Schema{Name: "flows", Doc: "one-way delay, loss, duplication and reordering of real traffic, by session, flow and interval", Fields: []Field{
		TimeField,
		{"session", String, "", "session that requested the row"},
		{"source", String, "", "agent that marked the packets; empty if unknown"},
		{"device", String, "", "interface on which the marks were read"},
		{"src", String, "", "source address; null if several are aggregated"},
		{"dst", String, "", "destination address; null if several are aggregated"},
		{"proto", String, "", "IP protocol by name or number; null if several are aggregated"},
		{"sport", Uint32, "", "source port; null if several are aggregated"},
		{"dport", Uint32, "", "destination port; null if several are aggregated"},
		{"interval_ns", Int64, "ns", "length of the window that ends at time"},
		{"packets", Uint64, "packets", "packets received: marked ones, and others of flows with sparse marks"},
		{"bytes", Uint64, "bytes", "IP bytes of these, without marks"},
		{"expected", Uint64, "packets", "packets whose sequence numbers are accounted for"},
		{"lost", Uint64, "packets", "expected packets that did not arrive (RFC 7680)"},
		{"duplicated", Uint64, "packets", "additional copies of packets (RFC 5560)"},
		{"reordered", Uint64, "packets", "packets that arrived after one sent later (RFC 4737)"},
		{"late", Uint64, "packets", "packets that arrived so late that they count as lost"},
		{"unchecked", Uint64, "packets", "packets of flows with sparse marks: duplicates and reordering among them are not detected"},
		{"delay_count", Uint64, "packets", "packets with a delay: those with a time stamp"},
		{"delay_min_ns", Int64, "ns", "minimum one-way delay (RFC 7679); negative if the clocks disagree"},
		{"delay_mean_ns", Int64, "ns", "mean one-way delay"},
		{"delay_p50_ns", Int64, "ns", "median one-way delay"},
		{"delay_p90_ns", Int64, "ns", "90th percentile of one-way delay"},
		{"delay_p99_ns", Int64, "ns", "99th percentile of one-way delay"},
		{"delay_max_ns", Int64, "ns", "maximum one-way delay"},
		{"ipdv_count", Uint64, "packets", "packets with a delay variation"},
		{"ipdv_min_ns", Int64, "ns", "minimum change of delay from the previous packet (RFC 3393)"},
		{"ipdv_mean_ns", Int64, "ns", "mean change of delay"},
		{"ipdv_p50_ns", Int64, "ns", "median change of delay"},
		{"ipdv_p90_ns", Int64, "ns", "90th percentile of change of delay"},
		{"ipdv_p99_ns", Int64, "ns", "99th percentile of change of delay"},
		{"ipdv_max_ns", Int64, "ns", "maximum change of delay"},
		{"delay_bounds_ns", Int64List, "ns", "lower bounds of the non-empty buckets of delays, ascending"},
		{"delay_counts", Uint64List, "packets", "packets in each of these buckets"},
		{"delay_offsets_ns", Uint64List, "ns", "for each of these buckets, the sum of delay minus lower bound over its packets; null if unknown"},
		{"ipdv_bounds_ns", Int64List, "ns", "lower bounds of the non-empty buckets of changes of delay, ascending"},
		{"ipdv_counts", Uint64List, "packets", "packets in each of these buckets"},
		{"clock_error_ns", Int64, "ns", "error bound of the destination's clock"},
		{"source_clock_error_ns", Int64, "ns", "error bound of the source's clock; null if unknown"},
	}}
	// Packets are records of single marked packets.
	Packets = Schema{Name: "packets", Doc: "one row per marked packet", Fields: []Field{
		TimeField,
		{"session", String, "", "session that requested the row"},
		{"source", String, "", "agent that marked the packet; empty if unknown"},
		{"device", String, "", "interface on which the mark was read"},
		{"src", String, "", "source address"},
		{"dst", String, "", "destination address"},
		{"proto", String, "", "IP protocol by name or number"},
		{"sport", Uint32, "", "source port"},
		{"dport", Uint32, "", "destination port"},
		{"sequence", Uint32, "", "number of the packet in its flow, or the first of its burst"},
		{"packets", Uint32, "packets", "packets that GRO merged into this one"},
		{"bytes", Uint32, "bytes", "IP bytes without the mark"},
		{"delay_ns", Int64, "ns", "one-way delay; null without the delay module"},
		{"encoding", String, "", "how the mark was carried"},
	}}
	// Hops are the answers of a traced path, a row for each hop.
	Hops = Schema{Name: "hops", Doc: "paths between hosts, hop by hop", Fields: []Field{
		TimeField,
		{"session", String, "", "session that requested the path; empty on demand"},
		{"peer", String, "", "agent at the far end"},
		{"src", String, "", "address of this end"},
		{"dst", String, "", "address of the far end"},
		{"protocol", String, "", "udp or icmp"},
		{"ttl", Uint32, "", "hops from this end"},
		{"address", String, "", "address that replied; null without a reply"},
		{"rtt_ns", Int64, "ns", "minimum round-trip time of the replies"},
		{"sent", Uint32, "packets", "probes sent"},
		{"answers", Uint32, "packets", "replies received"},
		{"reached", Bool, "", "the far end replied on this path"},
	}}
	// Router is where packets waited inside a router (seed 3): a row for each stage of
	// each pair of interfaces and interval.
	Router = Schema{Name: "router", Doc: "delays inside a router, by pair of interfaces, stage and interval", Fields: []Field{
		TimeField,
		{"session", String, "", "session that requested the row; empty if the router's own settings did"},
		{"input", String, "", "interface on which the packets arrived; empty if there were too many pairs to keep apart"},
		{"output", String, "", "interface on which they left"},
		{"stage", String, "", "input_queuing, processing, output_queuing; transit, the sum of these; hold, GRO's part of input_queuing"},
		{"interval_ns", Int64, "ns", "length of the window that ends at time"},
		{"packets", Uint64, "packets", "packets with a time in that stage; one that GRO merged from many counts once"},
		{"delay_min_ns", Int64, "ns", "minimum time, rounded down to its bucket"},
		{"delay_mean_ns", Int64, "ns", "mean time, exact"},
		{"delay_p50_ns", Int64, "ns", "median time"},
		{"delay_p90_ns", Int64, "ns", "90th percentile of the time"},
		{"delay_p99_ns", Int64, "ns", "99th percentile of the time"},
		{"delay_max_ns", Int64, "ns", "maximum time, rounded up to its bucket"},
		{"delay_bounds_ns", Int64List, "ns", "lower bounds of the non-empty buckets of times, ascending; as in flows"},
		{"delay_counts", Uint64List, "packets", "packets in each of these buckets"},
		{"delay_offsets_ns", Uint64List, "ns", "as in flows; null if unknown"},
	}}
	// RouterQueues is how many packets waited at each side of a router's interfaces.
	RouterQueues = Schema{Name: "router_queues", Doc: "queues of a router, by interface, side and interval", Fields: []Field{
		TimeField,
		{"session", String, "", "session that requested the row; empty if the router's own settings did"},
		{"interface", String, "", "interface"},
		{"side", String, "", "input: before IP; output: after it"},
		{"interval_ns", Int64, "ns", "length of the window that ends at time"},
		{"depth_mean", Float64, "packets", "mean of the packets that waited, from arrivals and departures"},
		{"depth_max", Uint64, "packets", "maximum number that waited at once"},
		{"arrivals", Uint64, "packets", "packets that arrived"},
		{"departures", Uint64, "packets", "packets that left"},
		{"waited_mean_ns", Int64, "ns", "mean wait of those that left"},
		{"kernel_depth", Uint64, "packets", "backlog or queue length that the kernel reports at time"},
		{"sizes", Int64List, "packets", "queue lengths found by departing packets, themselves included, ascending; 1023 also stands for all above"},
		{"size_counts", Uint64List, "packets", "departing packets that found each of these lengths"},
		{"gap_arrivals", Int64List, "packets", "numbers of arrivals between two consecutive departures, ascending; 1023 also stands for all above"},
		{"gap_counts", Uint64List, "", "inter-departure times with each of these numbers of arrivals"},
	}}
	// RouterBreaks are single coffee breaks.
	RouterBreaks = Schema{Name: "router_breaks", Doc: "coffee breaks: processing stalls, in which packets wait while their CPU processes none", Fields: []Field{
		TimeField,
		{"session", String, "", "session that requested the row; empty if the router's own settings did"},
		{"length_ns", Int64, "ns", "length of the break that begins at time"},
		{"cpu", Uint32, "", "processor"},
		{"depth", Uint64, "packets", "packets that waited at its end, at all inputs"},
		{"since", Uint64, "packets", "packets that began on the processor since its previous break"},
		{"cause", String, "", "softirq, irq, scheduled, unknown; not_recorded: no session asked for causes"},
		{"task", String, "", "process that occupied the processor longest"},
		{"softirq_ns", Int64, "ns", "time of other soft interrupts"},
		{"irq_ns", Int64, "ns", "time of interrupts"},
		{"task_ns", Int64, "ns", "time of processes"},
	}}
	// RouterAccount is the packet accounting of a router.
	RouterAccount = Schema{Name: "router_account", Doc: "packet accounting of a router, by interval", Fields: []Field{
		TimeField,
		{"session", String, "", "session that requested the row; empty if the router's own settings did"},
		{"interval_ns", Int64, "ns", "length of the window that ends at time"},
		{"seen", Uint64, "packets", "packets that arrived: forwarded, dropped, local, merged, lost, or in flight at the end but not at the beginning"},
		{"no_arrival", Uint64, "packets", "of those seen, packets first observed by IP: they have no input queuing and no transit"},
		{"forwarded", Uint64, "packets", "passed to an output driver"},
		{"dropped", Uint64, "packets", "dropped by the kernel"},
		{"local", Uint64, "packets", "delivered to the router itself"},
		{"merged", Uint64, "packets", "merged into another packet by GRO"},
		{"lost", Uint64, "packets", "lost by the profiler: fate unknown"},
		{"in_flight", Uint64, "packets", "inside the router at time"},
		{"unexplained", Int64, "packets", "amount by which the account does not balance; 0"},
		{"own", Uint64, "packets", "sent by the router itself; not in seen"},
		{"breaks", Uint64, "", "coffee breaks, including those that did not fit into router_breaks"},
	}}
	// Clock is the state of a host's clock.
	Clock = Schema{Name: "clock", Doc: "state of the host's clock", Fields: []Field{
		TimeField,
		{"synchronised", Bool, "", "the clock is synchronised"},
		{"offset_ns", Int64, "ns", "last offset measured by the synchronisation daemon or kernel"},
		{"max_error_ns", Int64, "ns", "error bound of the clock"},
		{"estimated_error_ns", Int64, "ns", "estimate of the clock's error"},
		{"frequency_ppm", Float64, "ppm", "correction of the clock's frequency"},
		{"tai_offset_s", Int32, "s", "TAI minus UTC; 0 if the kernel does not know it"},
		{"by", String, "", "what synchronises it: chrony, ptp4l, or kernel if unknown"},
		{"reference", String, "", "time source of the daemon"},
		{"step_ns", Int64, "ns", "step of the clock relative to the monotonic clock since the previous row"},
	}}
	// Host is the load of a host.
	Host = Schema{Name: "host", Doc: "load of the host; rates are over the interval since the previous row", Fields: []Field{
		TimeField,
		{"cpu_percent", Float64, "%", "utilisation of all processors"},
		{"cpus", Uint32, "", "processors"},
		{"load1", Float64, "", "mean run queue over a minute"},
		{"memory_total_bytes", Uint64, "bytes", "memory"},
		{"memory_used_bytes", Uint64, "bytes", "memory in use, without caches"},
		{"swap_used_bytes", Uint64, "bytes", "swap in use"},
	}}
	// Interfaces are counters of a host's interfaces.
	Interfaces = Schema{Name: "interfaces", Doc: "counters of the host's interfaces since the host started", Fields: []Field{
		TimeField,
		{"device", String, "", "interface"},
		{"sent_bytes", Uint64, "bytes", "sent"},
		{"received_bytes", Uint64, "bytes", "received"},
		{"sent_packets", Uint64, "packets", "sent"},
		{"received_packets", Uint64, "packets", "received"},
		{"sent_dropped", Uint64, "packets", "dropped on send"},
		{"received_dropped", Uint64, "packets", "dropped on receive"},
		{"sent_errors", Uint64, "packets", "not sent because of an error"},
		{"received_errors", Uint64, "packets", "received with an error"},
	}}
	// Agent is the resource use of the agent, and what it dropped.
	Agent = Schema{Name: "agent", Doc: "resource use of the agent and rows that it dropped", Fields: []Field{
		TimeField,
		{"cpu_percent", Float64, "%", "processor time of the agent, as a share of one processor"},
		{"memory_bytes", Uint64, "bytes", "resident memory of the agent"},
		{"goroutines", Uint32, "", "goroutines of the agent"},
		{"spool_batches", Uint64, "batches", "waiting in the spool"},
		{"spool_bytes", Uint64, "bytes", "waiting in the spool"},
		{"dropped_batches", Uint64, "batches", "dropped by the full spool since the agent started"},
		{"dropped_rows", Uint64, "rows", "rows of these"},
		{"rejected_batches", Uint64, "batches", "permanently rejected by the server since the agent started"},
		{"sent_batches", Uint64, "batches", "acknowledged since the agent started"},
		{"sent_rows", Uint64, "rows", "rows of these"},
		{"probe_ns", Uint64, "ns", "processor time of the BPF programs since they were loaded; null if the kernel does not count it"},
		{"probe_runs", Uint64, "", "runs of the BPF programs; null if the kernel does not count them"},
	}}
	// Events are for operators.
	Events = Schema{Name: "events", Doc: "events of agents, sessions and pairs", Fields: []Field{
		TimeField,
		{"kind", String, "", "such as agent-lost, path-changed, start-missed"},
		{"level", String, "", "info, warning or error"},
		{"about", String, "", "agent that it is about; of a pair, the source"},
		{"session", String, "", "session that it is about"},
		{"message", String, "", "description of the event"},
		{"peer", String, "", "destination of the pair that it is about"},
	}}
	// Audit records changes, queries, exports and refused calls of the API, and who made them.
	Audit = Schema{Name: "audit", Doc: "changes, queries, exports and refused calls of the API", Fields: []Field{
		TimeField,
		{"token", String, "", "name of the token"},
		{"role", String, "", "its role"},
		{"remote", String, "", "address it came from"},
		{"method", String, "", "API method"},
		{"request", String, "", "the request as JSON, without secrets"},
		{"outcome", String, "", "ok, or the error; of queries and exports also the rows and bytes sent"},
	}}
)

var standard = struct {
	sync.RWMutex
	schemas []*Schema
}{schemas: []*Schema{&Flows, &Packets, &Hops, &Clock, &Host, &Interfaces, &Agent, &Events, &Audit}}

// Standard returns all standard schemas, and the schemas of the registered points.
func Standard() []*Schema {
	standard.RLock()
	defer standard.RUnlock()
	return slices.Clone(standard.schemas)
}

// FindStandard is the standard schema of a stream, or nil.
func FindStandard(stream string) *Schema {
	for _, s := range Standard() {
		if s.Name == stream {
			return s
		}
	}
	return nil
}

// AddStandard adds schemas to Standard; package point does for each point.
func AddStandard(schemas ...*Schema) {
	standard.Lock()
	defer standard.Unlock()
	standard.schemas = append(standard.schemas, schemas...)
}
