package router

import (
	"net/netip"
	"time"
)

// Stage is a part of a packet's way through the router.
type Stage int

// Stages. Transit is the sum of the first three, of each packet: t4 - t1. Hold is how
// long GRO kept the first segment of a merged packet until the last came; it is part
// of input queuing.
const (
	InputQueuing  Stage = iota // t2 - t1
	Processing                 // t3 - t2
	OutputQueuing              // t4 - t3
	Transit                    // t4 - t1
	Hold                       // last t1 - first t1
	Stages        = 5
)

// Interface of the router's namespace.
type Interface struct {
	Index int    `json:"index"`
	Name  string `json:"name"`
}

// Pair is what was forwarded from one interface to another.
type Pair struct {
	In, Out Interface
	Stages  [Stages]Distribution
	Packets uint64 // that the driver got; fewer have a transit time, see Account.NoArrival
	Bytes   uint64 // of them, from the IP header on
	Merged  uint64 // segments that GRO merged into others of this pair
}

// Account explains each packet: Seen = Forwarded + Dropped + Local + Merged + InFlight
// + Lost + Unexplained.
type Account struct {
	Seen uint64 `json:"seen"` // at t1, or first at t2
	// NoArrival is the part of Seen whose t1 no hook observed: packets that were inside at
	// the start, or arrived while the kernel ran no tracing program. They are in no input
	// queue, and have neither input queuing nor transit.
	NoArrival   uint64            `json:"no_arrival"`
	Forwarded   uint64            `json:"forwarded"`
	Dropped     uint64            `json:"dropped"`
	DropReasons map[string]uint64 `json:"drop_reasons"` // the kernel's names, and where it freed
	Local       uint64            `json:"local"`        // delivered to the router itself
	Merged      uint64            `json:"merged"`       // by GRO, into another
	InFlight    uint64            `json:"in_flight"`
	// Lost by the tool: the table was full, or a packet's memory was reused before a
	// hook saw its end.
	Lost        uint64            `json:"lost"`
	LostReasons map[string]uint64 `json:"lost_reasons"`
	Unexplained int64             `json:"unexplained"`
	// Skipped are packets that were not asked for: filter, sampling, no IP; or that were
	// first seen at t3 (unseen), such as copies of multicast packets. They are not in Seen.
	Skipped map[string]uint64 `json:"skipped"`
	// Own are packets that the router itself sent, ICMP errors among them: they have
	// no t1, and are not in Seen.
	Own uint64 `json:"own"`
	// Segments are those that GSO made of forwarded packets at the output.
	Segments uint64 `json:"segments"`
	// Below are packets forwarded below IP: by a bridge, a redirection. They have
	// no stages, and are in no pair.
	Below uint64 `json:"below"`
}

// Cost of one program.
type Cost struct {
	Program string        `json:"program"`
	Runs    uint64        `json:"runs"`
	Time    time.Duration `json:"time_ns"`
}

// Snapshot is everything since the start; differences of two are what came between.
type Snapshot struct {
	Time    time.Time `json:"time"`
	Pairs   []Pair    `json:"pairs"`
	Account Account   `json:"account"`
	Queues  []Queue   `json:"queues"`
	Breaks  Breaks    `json:"breaks"`
	// Costs of the programs; nil where the kernel does not count (bpf_stats).
	Costs []Cost `json:"costs"`
}

// Record is one forwarded packet.
type Record struct {
	T1, T2, T3, T4 uint64 // CLOCK_MONOTONIC, ns; T1 is 0 if no hook observed the arrival
	In, Out        int    // indexes of interfaces
	Source         netip.AddrPort
	Destination    netip.AddrPort
	Protocol       uint8
	Length         uint32 // from the IP header on
	Merged         uint16 // segments in it that GRO merged; 0: none
	Segments       uint16 // that GSO made of it; 0: none
	LastT1         uint64 // of the last merged segment
	// Sent: it is a packet of the sender, with this train and number (send/frame.Tag).
	Sent          bool
	Train, Number uint32
}

// Options of a profile. Zero values: all packets of the namespace that the process
// (its thread) is in.
type Options struct {
	// Netns is an open file of the router's network namespace; 0: the caller's.
	Netns int
	// In and Out are names of interfaces; empty: all.
	In, Out []string
	// Match is the filter of five-tuples.
	Match Match
	// Sampling takes one in N packets, at random; 0 and 1: all.
	Sampling uint32
	// Records asks for each packet, by Router.Records.
	Records bool
	// SentOnly restricts them to packets of the sender (package send).
	SentOnly bool
	// RecordBytes is the size of their ring buffer, a power of two; default 4 MiB.
	RecordBytes int
	// Costs lets the kernel count what the programs cost, from the start on. That costs
	// something itself: it reads the clock twice for each program. See CountCosts.
	Costs bool
	// Causes records the causes of coffee breaks from the start on. See RecordCauses.
	Causes bool
	// Break is the least length of a coffee break; default 100 us.
	Break time.Duration
	// Pairs of interfaces that histograms are kept of; default 16. What comes beyond
	// is counted under the pair of 0 and 0.
	Pairs int
}

// Match is a filter of five-tuples; zero values match all.
type Match struct {
	Source, Destination         netip.Prefix
	Protocol                    uint8
	SourcePort, DestinationPort uint16
}
