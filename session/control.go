package session

import (
	"time"

	"pillion.dev/measure/point"
	"pillion.dev/wire/fivetuple"
)

// Request is what a server asks of an agent. Exactly one field is set.
type Request struct {
	Apply  *Assignment `json:"apply,omitempty"`
	Trace  *TraceTask  `json:"trace,omitempty"`
	Doctor *Doctor     `json:"doctor,omitempty"`
}

// Reply is the agent's answer, with the field of the request set, or an error.
type Reply struct {
	Error  string       `json:"error,omitempty"`
	Tasks  []TaskState  `json:"tasks,omitempty"`
	Trace  *TraceResult `json:"trace,omitempty"`
	Doctor []Check      `json:"doctor,omitempty"`
}

// Assignment is all that an agent shall do. Whatever it does besides, it ends;
// what is in it unchanged goes on without a break. Applied twice it changes
// nothing.
type Assignment struct {
	// Revision grows with each change; the agent reports the last it applied.
	Revision     uint64            `json:"revision"`
	Destinations []DestinationTask `json:"destinations,omitempty"`
	Sources      []SourceTask      `json:"sources,omitempty"`
	Traces       []TraceTask       `json:"traces,omitempty"`
	Points       []PointTask       `json:"points,omitempty"`
}

// Leased reports whether the assignment has tasks that pulses concern.
func (a *Assignment) Leased() bool { return len(a.Sources)+len(a.Destinations)+len(a.Points) > 0 }

// Peer is the other end of a task.
type Peer struct {
	Agent     string   `json:"agent"`
	Addresses []string `json:"addresses"`
}

// SourceTask marks packets to the peers, for one session.
type SourceTask struct {
	Session string `json:"session"`
	Device  string `json:"device,omitempty"` // empty: by the route to the peers
	// Addresses of this end, by which destinations know it: only packets from them
	// are marked, none that the host forwards for others. None means any.
	Addresses []string           `json:"addresses,omitempty"`
	Peers     []Peer             `json:"peers"`
	Modules   []string           `json:"modules"`
	Encoding  string             `json:"encoding"`
	Family    string             `json:"family"`
	Filters   []fivetuple.Filter `json:"filters,omitempty"`
	Sampling  Sampling           `json:"sampling"`
	Lease     Duration           `json:"lease"`
}

// DestinationTask reads marks from the peers, for one session.
type DestinationTask struct {
	Session     string             `json:"session"`
	Device      string             `json:"device,omitempty"`
	Peers       []Peer             `json:"peers"`
	Filters     []fivetuple.Filter `json:"filters,omitempty"`
	Interval    Duration           `json:"interval"`
	Granularity string             `json:"granularity"`
	Records     bool               `json:"records,omitempty"`
}

// PointTask measures a point, for one session.
type PointTask struct {
	Session string `json:"session"`
	Point   string `json:"point"`
	// Peers are the other ends, where the point is placed by pairs of agents.
	Peers   []Peer             `json:"peers,omitempty"`
	Filters []fivetuple.Filter `json:"filters,omitempty"` // those that the point can match
	Options point.Options      `json:"options,omitempty"` // all of them
	// Interval of its rows.
	Interval Duration `json:"interval"`
	// Lease is how long it goes on without a pulse; Forever needs none.
	Lease Duration `json:"lease"`
}

// Forever is the lease of a task that no server has to renew.
const Forever = Duration(-1)

// TraceTask traces the path to an address, every so often, or once where Every is
// zero.
type TraceTask struct {
	Session  string   `json:"session,omitempty"`
	Peer     string   `json:"peer,omitempty"`
	Address  string   `json:"address"`
	Protocol string   `json:"protocol"` // udp or icmp
	Every    Duration `json:"every,omitzero"`
}

// TraceResult is one path.
type TraceResult struct {
	Time     time.Time  `json:"time"`
	Source   string     `json:"source"` // address
	Address  string     `json:"address"`
	Protocol string     `json:"protocol"`
	Reached  bool       `json:"reached"`
	Hops     []TraceHop `json:"hops"`
	Error    string     `json:"error,omitempty"`
}

// TraceHop is one router, or the end, of a path. Address is empty where nobody
// answered.
type TraceHop struct {
	TTL     int    `json:"ttl"`
	Address string `json:"address,omitempty"`
	RTT     int64  `json:"rtt_ns,omitempty"` // least of the answers
	Sent    int    `json:"sent"`
	Answers int    `json:"answers"`
}

// TaskState is what became of one task.
type TaskState struct {
	Session string `json:"session"`
	Role    string `json:"role"` // source, destination, trace, or the name of a point
	Device  string `json:"device,omitempty"`
	Running bool   `json:"running"`
	// Error says why it does not run.
	Error string `json:"error,omitempty"`
	// Counters since it began, by name, packets where nothing else is said.
	Counters map[string]uint64 `json:"counters,omitempty"`
}

// State is what an agent reports about once a second.
type State struct {
	Agent string `json:"agent"`
	// Instance is drawn at random at each start of the agent's process.
	Instance string    `json:"instance"`
	Time     time.Time `json:"time"`
	Started  time.Time `json:"started"`
	Version  string    `json:"version"`
	Kernel   string    `json:"kernel"`
	// Boot is the running kernel's boot ID: agents that share it share a clock.
	Boot       string            `json:"boot,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"` // of its own configuration
	Interfaces []Interface       `json:"interfaces,omitempty"`
	Clock      Clock             `json:"clock"`
	Spool      Spool             `json:"spool"`
	// Thin is of how many samples applications are asked for one; 0 and 1: all.
	Thin     int         `json:"thin,omitempty"`
	Revision uint64      `json:"revision"`
	Tasks    []TaskState `json:"tasks,omitempty"`
}

// Interface of an agent's host.
type Interface struct {
	Name      string   `json:"name"`
	MTU       int      `json:"mtu"`
	Up        bool     `json:"up"`
	Addresses []string `json:"addresses,omitempty"` // prefixes
}

// Clock is the state of a host's clock.
type Clock struct {
	Synchronised bool   `json:"synchronised"`
	MaxErrorNs   int64  `json:"max_error_ns"`
	OffsetNs     int64  `json:"offset_ns"`
	By           string `json:"by,omitempty"` // chrony, ptp4l, kernel
}

// Spool is what an agent holds back and what it had to drop.
type Spool struct {
	Batches        int64 `json:"batches"`
	Bytes          int64 `json:"bytes"`
	LimitBytes     int64 `json:"limit_bytes"`
	DroppedBatches int64 `json:"dropped_batches"`
	DroppedRows    int64 `json:"dropped_rows"`
	Rejected       int64 `json:"rejected_batches"`
	SentRows       int64 `json:"sent_rows"`
	// DiskError is why batches wait in memory alone; empty where the disk takes them.
	DiskError string `json:"disk_error,omitempty"`
}

// Pulse is what a server tells each agent that has tasks about once a second. A
// source marks only for peers that are in Alive; a pulse renews its lease,
// and those of points.
type Pulse struct {
	// Revision of the assignment that the agent should have applied.
	Revision uint64 `json:"revision"`
	// Alive are, by session, the destination agents that read marks now.
	Alive map[string][]string `json:"alive,omitempty"`
	// ClockErrorNs bounds the clock of each peer, by agent.
	ClockErrorNs map[string]int64 `json:"clock_error_ns,omitempty"`
	// SameClock are the peers on the agent's own kernel: between them a delay has no
	// error of clocks.
	SameClock []string `json:"same_clock,omitempty"`
}

// Doctor asks an agent to check its host.
type Doctor struct {
	// Peers whose reachability is checked.
	Peers []Peer `json:"peers,omitempty"`
}

// Check is one thing that was looked at.
type Check struct {
	Name string `json:"name"`
	// Level is ok, warning or error.
	Level string `json:"level"`
	Found string `json:"found"`
	// Advice says what to do; empty where nothing is wrong.
	Advice string `json:"advice,omitempty"`
}
