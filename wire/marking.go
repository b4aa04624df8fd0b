package wire

import (
	"cmp"

	"pillion.dev/internal/quantity"
	"pillion.dev/wire/fivetuple"
)

// Duration is a time.Duration that is text in YAML and JSON, such as 1m30s.
type Duration = quantity.Duration

// Largest and default number of packets of a fast flow that share one time stamp.
const (
	StampEveryMax     = 4096
	StampEveryDefault = 16
)

// Marking has the settings of marks that are the same from the specification of a session through the task of a
// source to the constants of its programs: each layer embeds it. The zero value of a setting is its default. Tags
// name the settings in YAML, JSON and on the command line (package kong reads them); package session has defaults,
// bounds and descriptions. docs/reference/session.md shows these comments.
type Marking struct {
	// StampEvery has one in N packets of a fast flow, chosen at random, carry a time stamp, and
	// every packet of a flow with fewer than 8 N packets per second. All are numbered. 1 stamps
	// every packet.
	StampEvery uint32 `json:"stamp_every,omitempty" yaml:"stamp_every,omitempty" placeholder:"N" help:"Put a time into one packet in N of a fast flow, at random, and into every packet of a flow with fewer than 8 N packets/s, ${stamp_every_range}; 1: into every packet; default: ${stamp_every}."`
	// SparseMarks marks only packets with a time stamp; sequence numbers count the others.
	// That costs least. Loss is exact from one mark to the next, but neither duplicates nor
	// reordering are detected. Requires both modules, and no sampling.
	SparseMarks bool `json:"sparse_marks,omitempty" yaml:"sparse_marks,omitempty" negatable:"" help:"Mark only packets with a time, and count the others: costs least; loss is exact between marks, but duplicates and reordering are not detected."`
	// Block is how long packets have one colour in the encoding altmark, in whole milliseconds: loss
	// is measured for each such block. The offset between the clocks and the delay together must be
	// less than a quarter of it.
	Block Duration `json:"block,omitzero" yaml:"block,omitempty" needs:"altmark" placeholder:"TIME" help:"Length of the blocks of packets that have one colour in the encoding altmark, ${block_range}, in whole milliseconds; clock offset and delay together must be less than a quarter of it; default: ${block}."`
	// HopsGap is the minimum time between two packets with a trace of IOAM that leave an interface of
	// a source, with hops ioam.
	HopsGap Duration `json:"hops_gap,omitzero" yaml:"hops_gap,omitempty" placeholder:"TIME" help:"With --hops ioam, put a trace into at most one packet of each interface of a source in this time, ${hops_gap_range}; default: ${hops_gap}."`
	// Sampling applies to every source that is not in sampling_for.
	Sampling Sampling `json:"sampling,omitzero" yaml:"sampling,omitempty" embed:""`
	// Flow is the flow key (RFC 7011): src and dst, and any of proto, sport and dport, separated by
	// commas. Packets with the same key share one sequence of numbers and one set of counters. Fewer
	// fields need smaller tables and fewer rows.
	Flow fivetuple.Fields `json:"flow,omitzero" yaml:"flow,omitempty" placeholder:"LIST" help:"Flow key: the fields of ${flow_range} that tell flows apart, src and dst among them, separated by commas; default: ${flow}."`
	// Idle is how long a source keeps a flow without a packet. A destination keeps it twice as
	// long.
	Idle Duration `json:"idle,omitzero" yaml:"idle,omitempty" placeholder:"TIME" help:"Forget a flow at a source after this time without a packet, at a destination after twice as long, ${idle_range}; default: ${idle}."`
}

// Fields are the fields in which two flows differ.
func (m Marking) Fields() fivetuple.Fields { return cmp.Or(m.Flow, fivetuple.All) }
