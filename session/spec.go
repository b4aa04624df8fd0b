// Package session specifies measurements: which hosts measure which traffic, how and
// when. It validates a specification, computes the times of its runs, and plans the
// steps that start it: destinations first, sources last.
//
// It does no I/O: the server carries out plans, agents the tasks in them. They exchange
// the messages of control.go.
package session

import (
	"time"

	"pillion.dev/internal/quantity"
	"pillion.dev/wire/fivetuple"
)

// Spec is a session as a user writes it, in YAML, JSON or options of the command line,
// whose names and help are in the tags too (package kong reads them). Complete fills in
// defaults, Validate checks bounds; Settings has both. docs/session.md, which shows these comments, is
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
	// Modules are the metrics to measure. Loss includes reordering and duplication.
	Modules []string `json:"modules,omitempty" yaml:"modules,omitempty" placeholder:"LIST" help:"Metrics to measure: delay, loss; default: both."`
	// Encoding of marks: names in order of preference, separated by commas. A packet gets
	// the first encoding that applies to it. Native is added to a list without an
	// encoding for IPv6, unless the family is ipv4.
	Encoding string `json:"encoding,omitempty" yaml:"encoding,omitempty" placeholder:"LIST" help:"Encodings of marks, separated by commas: ${encodings}. A packet gets the first that applies to it; default: ${encoding}."`
	// StampEvery is how many packets of a fast flow share one time stamp: one in N has a
	// time, chosen at random, and so has every packet of a flow with fewer than 8 N packets
	// per second. All are numbered. 1 stamps every packet.
	StampEvery uint32 `json:"stamp_every,omitempty" yaml:"stamp_every,omitempty" placeholder:"N" help:"Put a time into one packet in N of a fast flow, at random, and into every packet of a flow with fewer than 8 N packets/s, ${stamp_every_range}; 1: into every packet; default: ${stamp_every}."`
	// SparseMarks marks only packets with a time stamp; sequence numbers count the others.
	// That costs least. Loss is exact from one mark to the next, but neither duplicates nor
	// reordering are detected. Requires both modules, and no sampling.
	SparseMarks bool `json:"sparse_marks,omitempty" yaml:"sparse_marks,omitempty" negatable:"" help:"Mark only packets with a time, and count the others: costs least; loss is exact between marks, but duplicates and reordering are not detected."`
	// Authentication of marks by a tag that proves which host wrote them. auto: on, unless the
	// version of an agent in the session does not support it; on: such agents are left out; off: no
	// tags, which paths through NAT require.
	Authentication string `json:"authentication,omitempty" yaml:"authentication,omitempty" placeholder:"NAME" help:"Authentication of marks, one of ${authentication_range}; default: ${authentication}. Turn it off for paths through NAT."`
	// Family is the address family of the packets that are marked.
	Family string `json:"family,omitempty" yaml:"family,omitempty" placeholder:"NAME" help:"Address family: one of ${family_range}; default: ${family}."`
	// Filters select packets by five-tuple: 'src=P dst=P proto=tcp sport=N dport=N', all
	// parts optional; P is an address or a prefix. A packet has to match one of them;
	// by default all packets between the pairs are marked.
	Filters []fivetuple.Filter `json:"filters,omitempty" yaml:"filters,omitempty" name:"filter" sep:"none" placeholder:"RULE" help:"Mark only packets that match 'src=P dst=P proto=tcp sport=N dport=N'; all parts are optional. Repeatable: a packet has to match one rule."`
	// Sampling applies to every source that is not in sampling_for.
	Sampling Sampling `json:"sampling,omitzero" yaml:"sampling,omitempty" embed:""`
	// SamplingFor is the sampling of single sources, by agent.
	SamplingFor map[string]Sampling `json:"sampling_for,omitempty" yaml:"sampling_for,omitempty" kong:"-"`
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
	// Lease is how long a source keeps marking without a heartbeat.
	Lease Duration `json:"lease,omitzero" yaml:"lease,omitempty" placeholder:"TIME" help:"Keep marking this long without a heartbeat, ${lease_range}; default: ${lease}."`
	// Trace is the interval between path traces; a negative time disables them.
	Trace Duration `json:"trace,omitzero" yaml:"trace,omitempty" placeholder:"TIME" help:"Interval between path traces, ${trace_range}; default: ${trace}; negative disables tracing."`
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

// Sampling selects which of the matching packets are marked (PSAMP, RFC 5475). The zero
// value selects all.
type Sampling struct {
	// Every marks one in N packets, by count; not with random.
	Every uint32 `json:"every,omitempty" yaml:"every,omitempty" placeholder:"N" help:"Mark one packet in N, by count."`
	// Random marks one in N packets, at random; not with every.
	Random uint32 `json:"random,omitempty" yaml:"random,omitempty" placeholder:"N" help:"Mark one packet in N, at random."`
	// MinGap is the minimum time between two marked packets.
	MinGap Duration `json:"min_gap,omitzero" yaml:"min_gap,omitempty" placeholder:"TIME" help:"Mark at most one packet in this time, such as 100us."`
}

// Duration is a time.Duration that is text in YAML and JSON, such as 1m30s.
type Duration = quantity.Duration

// Host is an agent as the planner sees it.
type Host struct {
	Name      string
	Labels    map[string]string
	Connected bool
	// Addresses are its global addresses.
	Addresses []string
	// Conflicts are those of them that another host keeps, and which.
	Conflicts map[string]string
	// Capabilities of its agent; nil: of a version that does not state them.
	Capabilities []string
}
