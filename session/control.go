package session

import (
	"net/netip"
	"time"

	"pillion.dev/measure/point"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// Request is what a server asks of an agent. Exactly one field is set.
type Request struct {
	Apply *Assignment `json:"apply,omitempty"`
	// Pulse comes with Apply, if it has tasks that depend on heartbeats: the first lease of its sources.
	// If it is nil, the agent waits for the next heartbeat.
	Pulse    *Pulse       `json:"pulse,omitempty"`
	Trace    *TraceTask   `json:"trace,omitempty"`
	Doctor   *Doctor      `json:"doctor,omitempty"`
	Describe *Describe    `json:"describe,omitempty"`
	Sent     []SentReport `json:"sent,omitempty"`
}

// Reply is the agent's answer, with the field of the request set, or an error.
type Reply struct {
	Error  string       `json:"error,omitempty"`
	Tasks  []TaskState  `json:"tasks,omitempty"`
	Trace  *TraceResult `json:"trace,omitempty"`
	Doctor []Check      `json:"doctor,omitempty"`
	// Facts describe the host, by name.
	Facts map[string]string `json:"facts,omitempty"`
}

// Assignment is the complete desired state of an agent: tasks that are not in it end,
// unchanged tasks continue without interruption. Applying it is idempotent.
type Assignment struct {
	// Revision grows with each change; the agent reports the last it applied.
	Revision     uint64            `json:"revision"`
	Destinations []DestinationTask `json:"destinations,omitempty"`
	Sources      []SourceTask      `json:"sources,omitempty"`
	Traces       []TraceTask       `json:"traces,omitempty"`
	Points       []PointTask       `json:"points,omitempty"`
}

// Leased reports whether the assignment has tasks that depend on heartbeats.
func (a *Assignment) Leased() bool { return len(a.Sources)+len(a.Destinations)+len(a.Points) > 0 }

// Peer is the other end of a task.
type Peer struct {
	Agent     string   `json:"agent"`
	Addresses []string `json:"addresses"`
	// Approved are the Addresses that count without a proof, since an operator has approved them.
	Approved []string `json:"approved,omitempty"`
	// Prefixes of the hosts behind the agent: packets from and to them are measured in place of
	// the agent's own.
	Prefixes []string `json:"prefixes,omitempty"`
	// Number by which marks name the agent, if it has Prefixes; 0: they name none.
	Number uint32 `json:"number,omitempty"`
	// Named: the session selects the agent by its name, so that addresses which are otherwise reserved, such as the
	// server's address, are marked too.
	Named bool `json:"named,omitempty"`
	// Key that the agent shares with this peer: it authenticates marks, and path probes.
	Key Key `json:"key,omitempty"`
}

// SourceTask marks packets to the peers, for one session.
type SourceTask struct {
	Session string `json:"session"`
	Device  string `json:"device,omitempty"` // empty: by the route to the peers
	// Addresses of the source, by which destinations identify it: only packets from
	// them are marked, not forwarded ones. None means any.
	Addresses []string `json:"addresses,omitempty"`
	// Transit are the prefixes of hosts behind this one: packets from them, which it forwards, are
	// marked in place of its own.
	Transit []string `json:"transit,omitempty"`
	// Waypoints of the session, with which others on the interface have to agree. Agents need not know
	// them.
	Waypoints []string `json:"-"`
	// Number of this agent, which its marks name, if it has Transit; 0: none.
	Number   uint32   `json:"number,omitempty"`
	Peers    []Peer   `json:"peers"`
	Modules  []string `json:"modules"`
	Encoding string   `json:"encoding"`
	// Marking has the settings of the specification as far as they apply to this source: without IOAM no HopsGap,
	// without altmark no Block.
	wire.Marking
	// Authenticated marks carry a tag, with the key of each peer.
	Authenticated bool               `json:"authenticated,omitempty"`
	Family        string             `json:"family"`
	Filters       []fivetuple.Filter `json:"filters,omitempty"`
	Lease         Duration           `json:"lease"`
	// Interval of the rows of the stream sent_flows; 0: none.
	Interval Duration `json:"interval,omitzero"`
	// Flows is the size of the table of flows; 0: the agent's default.
	Flows uint32 `json:"flows,omitempty"`
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
	// Modules of the session whose data marks carry in options of their own.
	Modules []string `json:"modules,omitempty"`
	// Authenticated marks carry a tag; others do not count.
	Authenticated bool `json:"authenticated,omitempty"`
	// Hops: rows of each hop of traced packets.
	Hops bool `json:"hops,omitempty"`
	// Transit are the prefixes of hosts behind this one, to which marked packets are on their way.
	Transit []string `json:"transit,omitempty"`
	// Block is the length of the blocks in which the sources count packets.
	Block Duration `json:"block,omitzero" needs:"altmark"`
	// Amends are prefixes: into marks of packets to them, which this host forwards, it writes the
	// time of their arrival. The task reads none.
	Amends []string `json:"amends,omitempty"`
	// DividedBy are the agents that write these times on paths to this one. Only for agents with the
	// capability of the module segments.
	DividedBy []string `json:"divided_by,omitempty"`
	FlowTable
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
	// Lease is how long the task continues without a heartbeat; Forever: no limit.
	Lease Duration `json:"lease"`
}

// Forever is the lease of a task that no server has to renew.
const Forever = Duration(-1)

// TraceTask traces the path to an address, periodically or, if Every is zero, once.
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

// TraceHop is a router, or the end, of a path. Address is empty if there was no
// response.
type TraceHop struct {
	TTL     int    `json:"ttl"`
	Address string `json:"address,omitempty"`
	RTT     int64  `json:"rtt_ns,omitempty"` // least of the answers
	Sent    int    `json:"sent"`
	Answers int    `json:"answers"`
}

// TaskState is the state of a task.
type TaskState struct {
	Session string `json:"session"`
	Role    string `json:"role"` // source, destination, trace, or the name of a point
	Device  string `json:"device,omitempty"`
	Running bool   `json:"running"`
	// Error is the reason why it is not running.
	Error string `json:"error,omitempty"`
	// Limit is what this host, or the paths from it, prevent the task from doing although it runs, and why: reasons
	// joined by semicolons. A reason that belongs to a Cause begins with it.
	Limit string `json:"limit,omitempty"`
	// Unanswered says why a destination answers no path probes, or only probes of one address family; empty: it
	// does. It is part of Limit.
	Unanswered string `json:"unanswered,omitempty"`
	// Missing are the peers of a destination whose marked packets have just ceased to arrive,
	// all or many of them.
	Missing []string `json:"missing,omitempty"`
	// OtherFlows are the peers of a destination whose marks are not measured, since they number
	// flows by other fields than the session's, and by which.
	OtherFlows map[string]string `json:"other_flows,omitempty"`
	// Counters since its start, by name; in packets unless the name says otherwise.
	Counters map[string]uint64 `json:"counters,omitempty"`
}

// Counters of a source: paths, each a destination and an encoding, by the result of path
// validation.
const (
	PathsPending    = "paths_pending"
	PathsPassed     = "paths_passed"
	PathsFailed     = "paths_failed"
	PathsAltered    = "paths_altered"
	PathsChecksum   = "paths_checksum"
	PathsUnanswered = "paths_unanswered"
)

// Counters of a source: addresses of destinations, by what is known about who has them.
const (
	AddressesPending  = "addresses_pending"
	AddressesProven   = "addresses_proven"
	AddressesUnproven = "addresses_unproven"
	// AddressesReserved are not marked since this host needs them: the addresses of the server and of DNS servers.
	AddressesReserved = "addresses_reserved"
)

// PathsNotPassed returns the number of paths that were tested and on which no marked packet
// was seen to arrive.
func (t TaskState) PathsNotPassed() uint64 {
	return t.Counters[PathsFailed] + t.Counters[PathsAltered] + t.Counters[PathsChecksum] + t.Counters[PathsUnanswered]
}

// State is what an agent reports about once a second.
type State struct {
	Agent string `json:"agent"`
	// Instance is drawn at random at each start of the agent's process.
	Instance string    `json:"instance"`
	Time     time.Time `json:"time"`
	Started  time.Time `json:"started"`
	// Stopping: this is the last report of the process, which ends in an orderly way.
	Stopping bool   `json:"stopping,omitempty"`
	Version  string `json:"version"`
	Kernel   string `json:"kernel"`
	// Capabilities of the agent.
	Capabilities []string `json:"capabilities,omitempty"`
	// Boot is the running kernel's boot ID: agents that share it share a clock.
	Boot string `json:"boot,omitempty"`
	// IOAMID identifies the host in traces of hops; 0: it is no IOAM node.
	IOAMID     uint32            `json:"ioam_id,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"` // from the agent's configuration
	Interfaces []Interface       `json:"interfaces,omitempty"`
	Clock      Clock             `json:"clock"`
	Spool      Spool             `json:"spool"`
	// Thin: applications are asked to send one in Thin samples; 0 and 1: all.
	Thin     int         `json:"thin,omitempty"`
	Revision uint64      `json:"revision"`
	Tasks    []TaskState `json:"tasks,omitempty"`
	// Omitted counts what the report leaves out, by kind: Bound.
	Omitted map[string]int `json:"omitted,omitempty"`
}

// Interface of an agent's host.
type Interface struct {
	Name      string   `json:"name"`
	MTU       int      `json:"mtu"`
	Up        bool     `json:"up"`
	Addresses []string `json:"addresses,omitempty"` // prefixes
	// Loopback: its addresses name the host, such as a router's identifier, or a service that several hosts
	// provide; nothing is measured to them unless they are named.
	Loopback bool `json:"loopback,omitempty"`
}

// Clock is the state of a host's clock.
type Clock struct {
	Synchronised bool   `json:"synchronised"`
	MaxErrorNs   int64  `json:"max_error_ns"`
	OffsetNs     int64  `json:"offset_ns"`
	By           string `json:"by,omitempty"` // chrony, ptp4l, kernel
	// Steps counts how often the clock was set since the agent started, StepNs is the last time's change.
	Steps  int   `json:"steps,omitempty"`
	StepNs int64 `json:"step_ns,omitempty"`
}

// Spool has the counters of an agent's spool.
type Spool struct {
	Batches        int64 `json:"batches"`
	Bytes          int64 `json:"bytes"`
	LimitBytes     int64 `json:"limit_bytes"`
	DroppedBatches int64 `json:"dropped_batches"`
	DroppedRows    int64 `json:"dropped_rows"`
	Rejected       int64 `json:"rejected_batches"`
	SentRows       int64 `json:"sent_rows"`
	// Damaged counts the dropped batches that are lost because files of the spool were damaged or missing.
	Damaged int64 `json:"damaged,omitempty"`
	// DiskError is why batches are held in memory only; empty if they are on disk.
	DiskError string `json:"disk_error,omitempty"`
}

// Pulse is the server's heartbeat to each agent with tasks, about once a second. It
// renews the leases of sources and points. A source marks only for peers in Alive.
type Pulse struct {
	// Revision of the assignment that the agent should have applied.
	Revision uint64 `json:"revision"`
	// Notice is what the server refused from this agent, and why; empty if nothing.
	Notice string `json:"notice,omitempty"`
	// Alive are the destination agents that are reading marks, by session.
	Alive map[string][]string `json:"alive,omitempty"`
	// Missing are the Alive agents at which all or many marked packets of this agent have just ceased to arrive, by
	// session.
	Missing map[string][]string `json:"missing,omitempty"`
	// ClockErrorNs bounds the clock of each peer, by agent.
	ClockErrorNs map[string]int64 `json:"clock_error_ns,omitempty"`
	// SameClock are the peers on the same kernel as the agent: delays between them have
	// no clock error.
	SameClock []string `json:"same_clock,omitempty"`
}

// Doctor asks an agent to check its host.
type Doctor struct {
	// Peers whose reachability is checked.
	Peers []Peer `json:"peers,omitempty"`
}

// Describe asks an agent for the facts of its host that change what a packet costs.
type Describe struct {
	// Devices whose offloads are described; none: all.
	Devices []string `json:"devices,omitempty"`
}

// SentReport tells a destination what a source has sent to it in an interval: rows of the stream
// sent_flows.
type SentReport struct {
	Session string `json:"session"`
	// Source is the agent that delivered the rows.
	Source   string   `json:"source"`
	Interval Duration `json:"interval"`
	// Age is how long ago the interval ended, by the server's clock.
	Age   Duration   `json:"age"`
	Flows []SentFlow `json:"flows"`
}

// SentFlow is one flow of a report. Numbers are modulo 2^31.
type SentFlow struct {
	Src      netip.Addr `json:"src"`
	Dst      netip.Addr `json:"dst"`
	Protocol uint8      `json:"proto"`
	Sport    uint16     `json:"sport,omitempty"`
	Dport    uint16     `json:"dport,omitempty"`

	Start uint32 `json:"start"` // with which the flow began at the source
	First uint32 `json:"first"` // of the first packet in the interval
	Next  uint32 `json:"next"`  // one more than the number of the last packet

	// Of a row about a block, which has no numbers and whose length is the interval: its number,
	// and what was sent in it.
	Block    uint64 `json:"block,omitempty"`
	Packets  uint64 `json:"packets,omitempty"`
	MarkedNs int64  `json:"marked_ns,omitempty"` // when the packet left whose delay is measured, since 1970; 0: none did
}

// Key is the flow's five-tuple.
func (f *SentFlow) Key() fivetuple.Key {
	return fivetuple.Key{Src: f.Src, Dst: f.Dst, Protocol: f.Protocol, Sport: f.Sport, Dport: f.Dport}
}

// Limits of the reports in one request.
const (
	SentReportsMax = 256
	SentFlowsMax   = 4096
)

// Levels of a check.
const (
	LevelOK      = "ok"
	LevelWarning = "warning"
	LevelError   = "error"
)

// Check is the result of one check.
type Check struct {
	Name string `json:"name"`
	// Level is ok, warning or error.
	Level string `json:"level"`
	Found string `json:"found"`
	// Advice says what to do; empty if the check passed.
	Advice string `json:"advice,omitempty"`
}
