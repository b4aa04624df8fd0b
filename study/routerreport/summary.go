package routerreport

import (
	"math"
	"time"

	"pillion.dev/internal/outfile"
	"pillion.dev/internal/quantity"
	"pillion.dev/probe/router"
)

// Summary is the result of a profile. It is the last line of the JSON.
type Summary struct {
	router.Account
	Start time.Time `json:"start"`
	// DurationS is the time during which new packets were profiled.
	DurationS float64       `json:"duration_s"`
	Pairs     []PairSummary `json:"pairs"`
	Queues    []QueueReport `json:"queues"`
	Breaks    BreakReport   `json:"breaks"`
	Cost      *CostReport   `json:"cost"` // null if it was not measured
	// Records that were written, and those that were lost in the kernel or by a slow reader.
	Records *outfile.Count `json:"records,omitempty"`
	// Environment describes where and how it was measured.
	Environment Environment `json:"environment"`
}

// Times summarises a distribution, in ns. Count and mean are exact, and so are minimum and
// maximum over the whole profile; quantiles have the precision of package histogram.
type Times struct {
	Count uint64  `json:"count"`
	Min   uint64  `json:"min"`
	Mean  float64 `json:"mean"`
	P50   uint64  `json:"p50"`
	P90   uint64  `json:"p90"`
	P99   uint64  `json:"p99"`
	P999  uint64  `json:"p999"`
	Max   uint64  `json:"max"`
	all   router.Distribution
}

// MarshalJSON writes null for what no value has.
func (t Times) MarshalJSON() ([]byte, error) {
	type figures Times
	return quantity.MarshalMeasured(t.Count > 0, figures(t), "min", "mean", "p50", "p90", "p99", "p999", "max")
}

func newTimes(d router.Distribution) Times {
	at := func(q float64) uint64 { return uint64(d.Quantile(q)) }
	return Times{
		Count: d.Count, Min: d.MinNs, Mean: round(d.Mean(), 1), Max: d.MaxNs,
		P50: at(.5), P90: at(.9), P99: at(.99), P999: at(.999), all: d,
	}
}

func round(value float64, digits int) float64 {
	power := math.Pow10(digits)
	return math.Round(value*power) / power
}

// StageTimes are the times of each stage of a pair.
type StageTimes struct {
	InputQueuing  Times `json:"input_queuing_ns"`
	Processing    Times `json:"processing_ns"`
	OutputQueuing Times `json:"output_queuing_ns"`
	Transit       Times `json:"transit_ns"`
	Hold          Times `json:"hold_ns"`
}

func newStageTimes(stages [router.Stages]router.Distribution) StageTimes {
	return StageTimes{
		InputQueuing: newTimes(stages[router.InputQueuing]), Processing: newTimes(stages[router.Processing]),
		OutputQueuing: newTimes(stages[router.OutputQueuing]), Transit: newTimes(stages[router.Transit]),
		Hold: newTimes(stages[router.Hold]),
	}
}

// PairSummary is the traffic from one interface to another.
type PairSummary struct {
	Input   string     `json:"input"`
	Output  string     `json:"output"`
	Packets uint64     `json:"packets"`
	Bytes   uint64     `json:"bytes"`
	Merged  uint64     `json:"merged"`
	Stages  StageTimes `json:"stages"`
}

// Name of the pair for display.
func (p PairSummary) Name() string {
	if p.Input == "" {
		return "other pairs"
	}
	return p.Input + " > " + p.Output
}

func newPairSummary(p router.Pair) PairSummary {
	return PairSummary{
		Input: p.In.Name, Output: p.Out.Name, Packets: p.Packets, Bytes: p.Bytes, Merged: p.Merged,
		Stages: newStageTimes(p.Stages),
	}
}

// newSummary summarises a snapshot, which has the counts since the start.
func newSummary(begin time.Time, length, counted time.Duration, now router.Snapshot) Summary {
	s := Summary{
		Account: now.Account, Start: begin.UTC(), DurationS: round(length.Seconds(), 3),
		Pairs: []PairSummary{}, Queues: []QueueReport{},
		Breaks: newBreakReport(now.Breaks), Cost: newCostReport(now.Costs, counted),
	}
	for _, p := range now.Pairs {
		s.Pairs = append(s.Pairs, newPairSummary(p))
	}
	for _, q := range now.Queues {
		s.Queues = append(s.Queues, newQueueReport(q, now.Time.Sub(begin)))
	}
	return s
}
