package destination

import (
	"fmt"

	"pillion.dev/measure/histogram"
	"pillion.dev/probe/flow"
)

// Granularity is how flows are put together into rows (seed 2, section III-C).
type Granularity string

// Rows by flow as the program keeps them, by pair of hosts, or by pair of hosts
// with the port that was sent to.
const (
	ByFlow     Granularity = "flow"
	ByHost     Granularity = "host"
	ByHostPort Granularity = "host-port"
)

// ParseGranularity reads what String gives.
func ParseGranularity(text string) (Granularity, error) {
	switch g := Granularity(text); g {
	case ByFlow, ByHost, ByHostPort:
		return g, nil
	}
	return "", fmt.Errorf("read granularity %q: there are flow, host and host-port", text)
}

func (g Granularity) key(k flow.Key) flow.Key {
	switch g {
	case ByHost:
		return flow.Key{Src: k.Src, Dst: k.Dst, Ingress: k.Ingress}
	case ByHostPort:
		k.Sport = 0
	}
	return k
}

// Counts are packets as they were on the wire. Packets = Expected - Lost +
// Duplicated + Late where the loss module is on.
type Counts struct {
	Packets uint64 `json:"packets"`
	// Bytes of the IP packets without their marks; a merged buffer counts its
	// headers once.
	Bytes uint64 `json:"bytes"`
	// Expected packets are those whose numbers are accounted for so far.
	Expected uint64 `json:"expected"`
	// Lost packets (RFC 7680) are expected ones that did not arrive within 1,024
	// sequence numbers.
	Lost uint64 `json:"lost"`
	// Duplicated packets (RFC 5560) arrived more than once.
	Duplicated uint64 `json:"duplicated"`
	// Reordered packets (RFC 4737) arrived after one that was sent later.
	Reordered uint64 `json:"reordered"`
	// Late packets arrived after they were counted as lost.
	Late uint64 `json:"late"`
	// Unchecked packets belong to flows of which only some packets carry a mark. They count from
	// the next mark on; none counts as duplicated or reordered, and a duplicate offsets a loss.
	Unchecked uint64 `json:"unchecked"`
	// Restarts of a flow's sequence numbers: its source restarted or expired the flow.
	Restarts uint64 `json:"restarts"`
}

func (c *Counts) add(other Counts) {
	c.Packets += other.Packets
	c.Bytes += other.Bytes
	c.Expected += other.Expected
	c.Lost += other.Lost
	c.Duplicated += other.Duplicated
	c.Reordered += other.Reordered
	c.Late += other.Late
	c.Unchecked += other.Unchecked
	c.Restarts += other.Restarts
}

// Row is what one flow, or one group of them, did in an interval.
type Row struct {
	Key flow.Key
	Counts
	// Delay is one-way (RFC 7679); Variation is its change from the packet that
	// came before in the flow (RFC 3393).
	Delay     Summary
	Variation Summary
	// Announced is the part of Lost that only the source's report revealed.
	Announced uint64

	values *change
}

// Histograms returns the histograms of the delays and of their variation.
func (r *Row) Histograms() (delay, variation *histogram.Histogram) {
	return &r.values.delay.Histogram, &r.values.variation.Histogram
}

// Accumulator adds up the rows of several readings, by a granularity of its own.
type Accumulator struct {
	by     Granularity
	groups map[flow.Key]*change
}

// NewAccumulator returns an empty one.
func NewAccumulator(by Granularity) *Accumulator {
	return &Accumulator{by: by, groups: map[flow.Key]*change{}}
}

// Add adds rows that were read by flow, and does not change them.
func (a *Accumulator) Add(rows []Row) {
	for i := range rows {
		key := a.by.key(rows[i].Key)
		g := a.groups[key]
		if g == nil {
			g = &change{}
			a.groups[key] = g
		}
		g.add(rows[i].values)
	}
}

// Take returns the rows, most packets first. The accumulator is empty afterwards.
func (a *Accumulator) Take() []Row {
	result := rows(a.groups)
	a.groups = map[flow.Key]*change{}
	return result
}
