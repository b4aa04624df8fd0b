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
// defaults.
type Spec struct {
	// Name of the session, with the syntax of an agent's name.
	Name string `json:"name" yaml:"name" kong:"-"`
	// Sources and Destinations are agents by name, by label (key=value, or key for
	// any value), or * for all. Every source is paired with every destination but
	// itself.
	Sources      []string `json:"sources" yaml:"sources" name:"from" placeholder:"AGENT" predictor:"agent" help:"Sources: agents by name, by label (KEY=VALUE or KEY), or * for all."`
	Destinations []string `json:"destinations" yaml:"destinations" name:"to" placeholder:"AGENT" predictor:"agent" help:"Destinations, in the same form."`
	// Both measures each pair in both directions.
	Both bool `json:"both,omitempty" yaml:"both,omitempty" negatable:"" help:"Measure each pair in both directions."`
	// Modules are delay and loss; default both.
	Modules []string `json:"modules,omitempty" yaml:"modules,omitempty" placeholder:"LIST" help:"Metrics to measure: delay, loss; default: both."`
	// Encoding of marks in IPv4, by its name in package wire; default udp. With one for
	// IPv6, IPv4 packets are not marked. IPv6 packets always use native, unless Family
	// is ipv4.
	Encoding string `json:"encoding,omitempty" yaml:"encoding,omitempty" placeholder:"NAME" help:"Encoding of marks in IPv4: one of ${encodings}; default: ${encoding}."`
	// Family is ipv4, ipv6 or any (default).
	Family string `json:"family,omitempty" yaml:"family,omitempty" placeholder:"NAME" help:"Address family: ipv4, ipv6 or any (default)."`
	// Filters select packets by five-tuple, as 'src=P dst=P proto=tcp sport=N
	// dport=N'; a packet has to match one of them. None: all packets between the pairs.
	Filters []fivetuple.Filter `json:"filters,omitempty" yaml:"filters,omitempty" name:"filter" sep:"none" placeholder:"RULE" help:"Mark only packets that match 'src=P dst=P proto=tcp sport=N dport=N'; all parts are optional. Repeatable: a packet has to match one rule."`
	// Sampling applies to every source that is not in SamplingFor.
	Sampling    Sampling            `json:"sampling,omitzero" yaml:"sampling,omitempty" embed:""`
	SamplingFor map[string]Sampling `json:"sampling_for,omitempty" yaml:"sampling_for,omitempty" kong:"-"`
	// Interval of the rows; default 1 s, from 100 ms to 1 h.
	Interval Duration `json:"interval,omitzero" yaml:"interval,omitempty" placeholder:"TIME" help:"Interval covered by a row; default: 1s."`
	// Granularity of the rows: flow (default), host-port, host.
	Granularity string `json:"granularity,omitempty" yaml:"granularity,omitempty" name:"by" placeholder:"NAME" help:"Aggregate rows by flow (default), host-port or host."`
	// Records asks for a row per packet in the stream packets.
	Records bool `json:"records,omitempty" yaml:"records,omitempty" negatable:"" help:"Also store per-packet records, in the stream packets."`
	// Device names the interface by agent; the default is that of the route to,
	// or from, the other end.
	Device map[string]string `json:"device,omitempty" yaml:"device,omitempty" placeholder:"AGENT=DEV" help:"Network interface of an agent; default: that of the route."`
	// Lease is how long a source keeps marking without a heartbeat; default 10 s, from
	// 2 s to 5 min.
	Lease Duration `json:"lease,omitzero" yaml:"lease,omitempty" placeholder:"TIME" help:"Keep marking this long without a heartbeat; default: 10s."`
	// Trace is the interval between path traces; default 1 min, at least 5 s; negative
	// disables them.
	Trace Duration `json:"trace,omitzero" yaml:"trace,omitempty" placeholder:"TIME" help:"Interval between path traces; default: 1m; negative disables tracing."`
	// Routers are agents, as in Sources, whose hosts are profiled as routers while the
	// session runs: shorthand for the point router.
	Routers []string `json:"routers,omitempty" yaml:"routers,omitempty" name:"router" sep:"none" placeholder:"AGENT" predictor:"agent" help:"Profile the forwarding delays of this router while the session runs. Repeatable."`
	// Points are measured in addition while the session runs; see package measure/point.
	Points []PointRequest `json:"points,omitempty" yaml:"points,omitempty" name:"point" sep:"none" placeholder:"POINT" help:"Measure an additional point, NAME[:OPTION=VALUE,...][@AGENT,...]; see pillion session points. Repeatable."`
	// Start is the time of the first run; zero: immediately. With Cron it is the earliest
	// time of the first start.
	Start time.Time `json:"start,omitzero" yaml:"start,omitempty" placeholder:"TIME" help:"First start; default: now."`
	// Duration of a run; zero: until stopped. Required with Cron.
	Duration Duration `json:"duration,omitzero" yaml:"duration,omitempty" placeholder:"TIME" help:"Duration of a run; default: until stopped."`
	// Cron starts a run at each time that the five fields match (minute, hour, day
	// of month, month, day of week), in TimeZone (IANA name; default UTC). Next
	// describes daylight-saving changes.
	Cron     string `json:"cron,omitempty" yaml:"cron,omitempty" placeholder:"EXPR" help:"Start on a schedule: a 5-field cron expression, such as '0 9 * * 1-5'."`
	TimeZone string `json:"time_zone,omitempty" yaml:"time_zone,omitempty" name:"tz" placeholder:"ZONE" help:"Time zone of the cron schedule, such as Europe/Berlin; default: UTC."`
}

// Sampling selects which of the matching packets are marked (PSAMP, RFC 5475). The zero
// value selects all.
type Sampling struct {
	// Every marks one in N packets, by count.
	Every uint32 `json:"every,omitempty" yaml:"every,omitempty" placeholder:"N" help:"Mark one packet in N, by count."`
	// Random marks one in N packets, at random.
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
}
