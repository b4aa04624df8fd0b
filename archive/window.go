package archive

import (
	"math"
	"slices"
	"time"

	"pillion.dev/measure/histogram"
)

// Selection says which rows of the stream flows are added up; empty or zero fields
// ask for nothing. Without a session those of each pair of hosts come from the one
// session that saw most of its packets, so that none counts twice.
type Selection struct {
	Source, Destination, Session string
	Src, Dst, Proto              string
	Sport, Dport                 uint32
}

// Windows asks for rows of flows added up in windows of equal length.
type Windows struct {
	Selection
	// From (inclusive), To (exclusive); both are needed. They are moved outwards to
	// whole windows.
	From, To time.Time
	// Points is how many windows fit into the range at most; with Step they are that
	// long instead.
	Points int
	Step   time.Duration
	// Before, if set, leaves out rows that ended then or later.
	Before time.Time
	// Histograms are wanted.
	Histograms bool
	// Sample is how many rows with histograms are read before they are thinned; 0
	// means 200,000.
	Sample int64
}

// WindowsAnswer answers Windows.
type WindowsAnswer struct {
	Windows []Window // those with rows, by time
	Step    time.Duration
	// Sampled: histograms and quantiles are of one in so many rows.
	Sampled int64
	// Sessions that have rows of the selection, whatever its session, those with
	// most packets first.
	Sessions []string
}

// Window is what rows of flows add up to. What nobody measured is NaN.
type Window struct {
	Start                                                       time.Time
	Packets, Bytes, Expected, Lost, Duplicated, Reordered, Late uint64
	// Delay has quantiles of the rows' histograms added up. Those of IPDV are of
	// the row with most packets.
	Delay, IPDV Distribution
	// ClockError bounds both clocks together, ns: the largest of the rows.
	ClockError float64
	Buckets    histogram.Histogram
}

// Distribution of a time, ns.
type Distribution struct {
	Count                         uint64
	Min, Mean, P50, P90, P99, Max float64
}

// NoDistribution is that of no packets.
func NoDistribution() Distribution {
	none := math.NaN()
	return Distribution{0, none, none, none, none, none, none}
}

// Spread puts the quantiles of a histogram in.
func (d *Distribution) Spread(b *histogram.Histogram) {
	least, most := d.Min, d.Max
	if math.IsNaN(least) || math.IsNaN(most) {
		least, most = math.Inf(-1), math.Inf(1)
	}
	d.P50, d.P90, d.P99 = b.Quantile(0.5, least, most), b.Quantile(0.9, least, most), b.Quantile(0.99, least, most)
}

// Flows asks for rows of flows added up by flow.
type Flows struct {
	Selection
	// From (inclusive), To (exclusive); both are needed.
	From, To time.Time
	// Granularity is flow, host-port or host.
	Granularity string
	// Order is packets, bytes, lost, p50, p90, p99, max or last; largest first.
	Order     string
	Ascending bool
	// Search keeps flows whose text contains it, without regard to case.
	Search string
	Limit  int
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

// Flow is one flow, or flows put together. Ports are 0 and Proto is empty where
// several are.
type Flow struct {
	Src, Dst, Proto string
	Sport, Dport    uint32
	// Window starts with the first row.
	Window
	Last time.Time
}

const day = 24 * time.Hour

var steps = []time.Duration{
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	1 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
}

// StepOf is the shortest length of windows that people like to read and that is not
// below least.
func StepOf(least time.Duration) time.Duration {
	if i, _ := slices.BinarySearch(steps, least); i < len(steps) {
		return steps[i]
	}
	return (least + day - 1) / day * day
}

// IntervalMax is the longest interval that rows can have; longer ones are taken as
// that long.
const IntervalMax = time.Hour

// IntervalStep is the least length of windows for rows of an interval. Rows come out
// a little longer or shorter than their session asks for, so a tenth is let pass.
func IntervalStep(interval time.Duration) time.Duration {
	interval = max(0, min(interval, IntervalMax))
	return StepOf(interval - interval/10)
}
