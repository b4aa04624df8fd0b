// Package session is what a user asks for: which hosts measure which traffic, how
// and when. It validates a request, finds the times at which it runs, and makes
// the plan of steps that carries it out: destinations first, sources last, and the
// other way round to stop.
//
// It talks to nobody; the server carries plans out, the agent carries out the
// tasks in them. Both speak the requests of control.go to each other.
package session

import (
	"time"

	"pillion.dev/internal/quantity"
	"pillion.dev/wire/fivetuple"
)

// Spec is a session as a user writes it, in YAML or JSON. What is left out has
// the default that Complete gives it.
type Spec struct {
	// Name of the session: as an agent's name.
	Name string `json:"name" yaml:"name"`
	// Sources and Destinations are agents by name, by label (key=value, or key for
	// any value), or * for all. Every source is paired with every destination but
	// itself.
	Sources      []string `json:"sources" yaml:"sources"`
	Destinations []string `json:"destinations" yaml:"destinations"`
	// Both measures each pair in both directions.
	Both bool `json:"both,omitempty" yaml:"both,omitempty"`
	// Modules are delay and loss; default both.
	Modules []string `json:"modules,omitempty" yaml:"modules,omitempty"`
	// Encoding of marks in IPv4, by its name in package wire; default udp. One for
	// IPv6 leaves IPv4 packets unmarked.
	// IPv6 is always native, unless Family is ipv4.
	Encoding string `json:"encoding,omitempty" yaml:"encoding,omitempty"`
	// Family is ipv4, ipv6 or any (default).
	Family string `json:"family,omitempty" yaml:"family,omitempty"`
	// Filters choose packets by five-tuple, as 'src=P dst=P proto=tcp sport=N
	// dport=N'; one that fits is enough. None: all between the pairs.
	Filters []fivetuple.Filter `json:"filters,omitempty" yaml:"filters,omitempty"`
	// Sampling holds for every source that SamplingFor does not name.
	Sampling    Sampling            `json:"sampling,omitzero" yaml:"sampling,omitempty"`
	SamplingFor map[string]Sampling `json:"sampling_for,omitempty" yaml:"sampling_for,omitempty"`
	// Interval of the rows; default 1 s, from 100 ms to 1 h.
	Interval Duration `json:"interval,omitzero" yaml:"interval,omitempty"`
	// Granularity of the rows: flow (default), host-port, host.
	Granularity string `json:"granularity,omitempty" yaml:"granularity,omitempty"`
	// Records asks for a row per packet in the stream packets.
	Records bool `json:"records,omitempty" yaml:"records,omitempty"`
	// Device names the interface by agent; the default is that of the route to,
	// or from, the other end.
	Device map[string]string `json:"device,omitempty" yaml:"device,omitempty"`
	// Lease is how long a source marks on when it hears nothing; default 10 s,
	// from 2 s to 5 min.
	Lease Duration `json:"lease,omitzero" yaml:"lease,omitempty"`
	// Trace is how often paths are traced; default 1 min, at least 5 s; negative:
	// never.
	Trace Duration `json:"trace,omitzero" yaml:"trace,omitempty"`
	// Routers are agents, as in Sources, whose hosts are profiled as routers while
	// the session runs: short for the point router.
	Routers []string `json:"routers,omitempty" yaml:"routers,omitempty"`
	// Points are measured besides while the session runs; see package measure/point.
	Points []PointRequest `json:"points,omitempty" yaml:"points,omitempty"`
	// Start is when it first runs; zero means at once. With Cron the first start
	// is not before it.
	Start time.Time `json:"start,omitzero" yaml:"start,omitempty"`
	// Duration of a run; zero means until it is stopped. Cron needs one.
	Duration Duration `json:"duration,omitzero" yaml:"duration,omitempty"`
	// Cron starts a run at each time that the five fields match (minute, hour, day
	// of month, month, day of week), in TimeZone (IANA name; default UTC). Next
	// says what happens where clocks are changed.
	Cron     string `json:"cron,omitempty" yaml:"cron,omitempty"`
	TimeZone string `json:"time_zone,omitempty" yaml:"time_zone,omitempty"`
}

// Sampling says which of the chosen packets are marked (PSAMP, RFC 5475). The zero
// value marks all.
type Sampling struct {
	// Every marks one of so many packets, by count.
	Every uint32 `json:"every,omitempty" yaml:"every,omitempty"`
	// Random marks one of so many packets, at random.
	Random uint32 `json:"random,omitempty" yaml:"random,omitempty"`
	// MinGap is the least time between two marked packets.
	MinGap Duration `json:"min_gap,omitzero" yaml:"min_gap,omitempty"`
}

// Duration is a time.Duration that is written as text, such as 1m30s, in YAML and
// JSON.
type Duration = quantity.Duration

// Host is an agent as the planner sees it.
type Host struct {
	Name      string
	Labels    map[string]string
	Connected bool
	// Addresses that packets to it carry, global ones only.
	Addresses []string
}
