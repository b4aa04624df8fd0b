// Package session specifies measurements: which hosts measure which traffic, how and
// when. It validates a specification, computes the times of its runs, and plans the
// steps that start it: destinations first, sources last.
//
// It does no I/O: the server carries out plans, agents the tasks in them. They exchange
// the messages of control.go.
package session

import (
	"time"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// Spec is a session as a user writes it, in YAML, JSON or options of the command line,
// whose names and help are in the tags too (package kong reads them). Complete fills in
// defaults, Validate checks bounds; Settings has both. docs/reference/session.md, which shows these comments, is
// generated from all three by go test ./session -update.
type Spec struct {
	// Name of the session: lowercase letters, digits and inner hyphens, as for agents.
	Name string `json:"name" yaml:"name" kong:"-"`
	// Sources are the agents that mark packets, by name, by label (key=value, or key for
	// any value), or * for all.
	Sources []string `json:"sources" yaml:"sources" name:"from" placeholder:"AGENT" predictor:"agent" help:"Sources: agents by name, by label (KEY=VALUE or KEY), or * for all."`
	// Destinations are the agents that read and remove marks, in the same form. Every
	// source is paired with every destination but itself.
	Destinations []string `json:"destinations" yaml:"destinations" name:"to" placeholder:"AGENT" predictor:"agent" help:"Destinations, in the same form."`
	// Both measures each pair in both directions.
	Both bool `json:"both,omitempty" yaml:"both,omitempty" negatable:"" help:"Measure each pair in both directions."`
	// Modules are the metrics to measure, delay or loss among them. Loss includes reordering and duplication.
	Modules []string `json:"modules,omitempty" yaml:"modules,omitempty" placeholder:"LIST" help:"Metrics to measure, separated by commas: ${modules_range}; default: ${modules}."`
	// Encoding of marks: names in order of preference, separated by commas. A packet gets
	// the first encoding that applies to it. Native is added to a list without an
	// encoding for IPv6, unless the family is ipv4.
	Encoding     string `json:"encoding,omitempty" yaml:"encoding,omitempty" placeholder:"LIST" help:"Encodings of marks, separated by commas: ${encodings}. A packet gets the first that applies to it; default: ${encoding}."`
	wire.Marking `yaml:",inline" embed:""`
	// Authentication of marks by a tag that proves which host wrote them. auto: on in
	// sessions of a server; off: no tags, which paths through NAT require.
	Authentication string `json:"authentication,omitempty" yaml:"authentication,omitempty" placeholder:"NAME" help:"Authentication of marks, one of ${authentication_range}; default: ${authentication}. Turn it off for paths through NAT."`
	// Family is the address family of the packets that are marked.
	Family string `json:"family,omitempty" yaml:"family,omitempty" placeholder:"NAME" help:"Address family: one of ${family_range}; default: ${family}."`
	// Filters select packets by five-tuple: 'src=P dst=P proto=tcp sport=N dport=N', all
	// parts optional; P is an address or a prefix. A packet has to match one of them;
	// by default all packets between the pairs are marked.
	Filters []fivetuple.Filter `json:"filters,omitempty" yaml:"filters,omitempty" name:"filter" sep:"none" placeholder:"RULE" help:"Mark only packets that match 'src=P dst=P proto=tcp sport=N dport=N'; all parts are optional. Repeatable: a packet has to match one rule."`
	// SamplingFor is the sampling of single sources, by agent.
	SamplingFor map[string]Sampling `json:"sampling_for,omitempty" yaml:"sampling_for,omitempty" kong:"-"`
	// Flows is the size of the tables of flows, at sources and destinations; 0: 65536 flows at a
	// source, 16384 at a destination. Sessions on one interface share a table: the largest size that
	// they ask for when the first of them begins.
	Flows uint32 `json:"flows,omitempty" yaml:"flows,omitempty" placeholder:"N" help:"Size of the tables of flows, ${flows_range}; default: 65536 flows at a source, 16384 at a destination."`
	// Interval is the time that a row covers.
	Interval Duration `json:"interval,omitzero" yaml:"interval,omitempty" placeholder:"TIME" help:"Interval covered by a row, ${interval_range}; default: ${interval}."`
	// Granularity is what a row aggregates: a five-tuple, a pair of addresses with the
	// destination's port and the protocol, or a pair of addresses.
	Granularity string `json:"granularity,omitempty" yaml:"granularity,omitempty" name:"by" placeholder:"NAME" help:"Aggregate rows by one of ${granularity_range}; default: ${granularity}."`
	// Records also stores a row for each marked packet, in the stream packets.
	Records bool `json:"records,omitempty" yaml:"records,omitempty" negatable:"" help:"Also store per-packet records, in the stream packets."`
	// Device is the network interface, by agent; by default that of the route to the
	// other end. Marks are read on no other interface: where packets arrive on another one
	// (asymmetric routing), name all of them, separated by commas.
	Device map[string]string `json:"device,omitempty" yaml:"device,omitempty" placeholder:"AGENT=DEV" help:"Network interface of an agent, or several, separated by commas, where routes are asymmetric; default: that of the route. Marks are read on no other."`
	// Transit are the prefixes of hosts behind an agent, by agent, several separated by commas: the
	// agent is an edge, which marks packets that it forwards from these hosts, and reads and removes
	// the marks of packets to them. Its own packets are not measured. The agent's host has to allow
	// it, in its policy.
	Transit map[string]string `json:"transit,omitempty" yaml:"transit,omitempty" placeholder:"AGENT=PREFIX" help:"Measure the packets of hosts behind an agent, which forwards them, in place of its own: their prefixes, separated by commas. The policy of the agent's host has to allow it."`
	// Waypoints are agents on the paths, as in sources, that write the time of arrival into the marks of
	// packets which they forward, and leave them: destinations then measure the delay of both
	// segments, from the source to the waypoint and from there on, in the stream segments. Where a path
	// has several waypoints, the first one writes. The policy of the waypoint's host has to allow it.
	Waypoints []string `json:"waypoints,omitempty" yaml:"waypoints,omitempty" name:"waypoint" sep:"none" placeholder:"AGENT" predictor:"agent" help:"Measure the delay up to this agent, which forwards the packets, and from there on. The policy of its host has to allow it. Repeatable."`
	// Lease is how long a source keeps marking without a heartbeat.
	Lease Duration `json:"lease,omitzero" yaml:"lease,omitempty" placeholder:"TIME" help:"Keep marking this long without a heartbeat, ${lease_range}; default: ${lease}."`
	// Trace is the interval between path traces; a negative time disables them.
	Trace Duration `json:"trace,omitzero" yaml:"trace,omitempty" placeholder:"TIME" help:"Interval between path traces, ${trace_range}; default: ${trace}; negative disables tracing."`
	// Hops is how the paths between the pairs are measured hop by hop: traceroute, by probes every
	// trace; ioam, in addition by traces of IOAM in IPv6 packets that are marked; off, not at all.
	Hops string `json:"hops,omitempty" yaml:"hops,omitempty" placeholder:"NAME" help:"Measure paths hop by hop: one of ${hops_range}; default: ${hops}."`
	// Routers are agents, as in sources, whose hosts are profiled as routers while the
	// session runs: shorthand for the point router.
	Routers []string `json:"routers,omitempty" yaml:"routers,omitempty" name:"router" sep:"none" placeholder:"AGENT" predictor:"agent" help:"Profile the forwarding delays of this router while the session runs. Repeatable."`
	// Points are the additional points measured while the session runs.
	Points []PointRequest `json:"points,omitempty" yaml:"points,omitempty" name:"point" sep:"none" placeholder:"POINT" help:"Measure an additional point, NAME[:OPTION=VALUE,...][@AGENT,...]; see pillion session points. Repeatable."`
	// Start is the time of the first run; by default now. With cron it is the earliest
	// time of the first start.
	Start time.Time `json:"start,omitzero" yaml:"start,omitempty" placeholder:"TIME" help:"First start; default: now."`
	// Duration of a run; by default until stopped. Required with cron.
	Duration Duration `json:"duration,omitzero" yaml:"duration,omitempty" placeholder:"TIME" help:"Duration of a run; default: until stopped."`
	// Cron starts a run at each time that the five fields match (minute, hour, day of
	// month, month, day of week). A start in the hour that is skipped when clocks go
	// forward is skipped; one in the hour that is repeated occurs twice. A run that would
	// overlap the next one ends when that starts.
	Cron string `json:"cron,omitempty" yaml:"cron,omitempty" placeholder:"EXPR" help:"Start on a schedule: a 5-field cron expression, such as '0 9 * * 1-5'."`
	// TimeZone is the zone of cron, by its IANA name.
	TimeZone string `json:"time_zone,omitempty" yaml:"time_zone,omitempty" name:"tz" placeholder:"ZONE" help:"Time zone of the cron schedule, such as Europe/Berlin; default: UTC."`
}

// Types of settings that tasks and programs have as well.
type (
	Duration = wire.Duration
	Sampling = wire.Sampling
	Rule     = wire.Rule
)

// Host is an agent as the planner sees it.
type Host struct {
	Name      string
	Labels    map[string]string
	Connected bool
	// Addresses are its global addresses.
	Addresses []string
	// Conflicts are the Addresses that another host keeps, and which host.
	Conflicts map[string]string
	// Capabilities of its agent; nil: it has not reported them yet.
	Capabilities []string
	// Clock is the last state of its clock, Boot says which host has it; empty: nothing is known.
	Clock Clock
	Boot  string
}
