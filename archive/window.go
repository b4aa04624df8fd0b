package archive

import (
	"slices"
	"time"

	"pillion.dev/measure/flows"
)

// Selection says which rows of the stream flows are added up; empty or zero fields match any value. Without a
// session, each pair of hosts has the rows of the session that flows.Elect chooses.
type Selection struct {
	Source, Destination, Session string
	flows.Flow
	Scope *Scope
}

// Has reports whether a row is selected, ignoring the election of sessions.
func (s *Selection) Has(row *flows.Row) bool {
	is := func(want, is string) bool { return want == "" || want == is }
	return is(s.Source, row.Source) && is(s.Destination, row.Destination) && is(s.Session, row.Session) &&
		is(s.Src, row.Src) && is(s.Dst, row.Dst) && is(s.Proto, row.Proto) &&
		(s.Sport == 0 || s.Sport == row.Sport) && (s.Dport == 0 || s.Dport == row.Dport) && s.Scope.HasPair(row.Source, row.Destination)
}

// Windows asks for rows of flows added up in windows of equal length.
type Windows struct {
	Selection
	// From (inclusive) and To (exclusive) are required. They are extended to whole
	// windows.
	From, To time.Time
	// Points is how many windows fit into the range at most; with Step they are that
	// long instead.
	Points int
	Step   time.Duration
	// Before, if set, excludes rows that ended at that time or later.
	Before time.Time
	// Sample limits the number of rows whose histograms are read: of more rows, every
	// nth is. 0 means 200,000.
	Sample int64
}

// WindowsAnswer answers Windows.
type WindowsAnswer struct {
	Windows []Window // those with rows, by time
	Step    time.Duration
	// Sampled is n if histograms are read from every nth row, and from at least one row per window.
	Sampled int64
	// Sessions with rows of the selection, regardless of its session, those with
	// most packets first.
	Sessions []string
}

// Window is the sum of the rows of flows in a length of time.
type Window struct {
	Start time.Time
	flows.Sum
	// Corrected are the delays without the offset of the clocks. Archives leave it empty, the
	// server fills it on request.
	Corrected flows.Distribution
}

// Flows asks for rows of flows added up by flow.
type Flows struct {
	Selection
	// From (inclusive) and To (exclusive) are required.
	From, To time.Time
	// Granularity is flow, host-port, host, host-protocol, pair, whose Src and Dst are the agents, or protocol, of
	// these by protocol.
	Granularity string
	// Order is packets, bytes, lost (the share), p50, p90, p99, max or last; largest first.
	Order     string
	Ascending bool
	// Search selects flows whose text contains it, ignoring case, and those from SearchSrc or to SearchDst: addresses whose
	// names match.
	Search               string
	SearchSrc, SearchDst []string
	Limit                int
	// Sample as in Windows.
	Sample int64
}

// FlowsAnswer answers Flows.
type FlowsAnswer struct {
	Flows []Flow
	// Found is how many there are without the limit.
	Found   int64
	Sampled int64
}

// Flow is the sum of the rows of one flow, or of flows put together.
type Flow struct {
	flows.Flow
	// Window starts with the first row.
	Window
	Last time.Time
}

// Volumes asks for the packets and bytes of flows, or of groups of flows, separately for each pair of hosts.
type Volumes struct {
	Selection
	// From (inclusive) and To (exclusive) are required.
	From, To time.Time
	// Granularity as in Flows.
	Granularity string
	// Limit is the most groups, those with most packets.
	Limit int
}

// VolumesAnswer answers Volumes.
type VolumesAnswer struct {
	Volumes []Volume // most packets first
	// Found is how many there are without the limit; Packets and Bytes are theirs.
	Found          int64
	Packets, Bytes uint64
}

// Volume is what was received of one flow, or of flows put together, of a pair of hosts.
type Volume struct {
	flows.Flow
	// Source and Destination are the agents.
	Source, Destination string
	Packets, Bytes      uint64
	// Sessions that measured the pair: first the one whose rows these are.
	Sessions []string
}

const day = 24 * time.Hour

var steps = []time.Duration{
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	1 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
}

// StepOf is the shortest round length of windows that is not below least.
func StepOf(least time.Duration) time.Duration {
	if i, _ := slices.BinarySearch(steps, least); i < len(steps) {
		return steps[i]
	}
	return (least + day - 1) / day * day
}

// IntervalStep is the minimum length of windows for rows of an interval, with a tolerance
// of a tenth: rows are slightly longer or shorter than their session's interval.
func IntervalStep(interval time.Duration) time.Duration {
	interval = max(0, min(interval, flows.IntervalMax))
	return StepOf(interval - interval/10)
}
