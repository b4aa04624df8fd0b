package routerreport

import (
	"time"

	"pillion.dev/probe/router"
)

// Interval is what was counted between two readings. The account and the largest sizes of
// queues are those since the start: only then does the account balance.
type Interval struct {
	Time        time.Time      `json:"time"`
	DurationS   float64        `json:"duration_s"`
	Account     router.Account `json:"account"`
	Pairs       []PairSummary  `json:"pairs"`
	Queues      []QueueReport  `json:"queues"`
	Breaks      uint64         `json:"breaks"`
	BreakNs     uint64         `json:"breaks_ns"`
	Cost        *CostReport    `json:"cost"`
	RecordsLost uint64         `json:"records_lost"`
	// since the start of the profile.
	at     time.Duration
	length time.Duration
	breaks BreakReport
}

func newInterval(begin time.Time, before, now router.Snapshot, counted time.Duration) Interval {
	length := now.Time.Sub(before.Time)
	since := now.Sub(before)
	i := Interval{
		Time: now.Time.UTC(), DurationS: round(length.Seconds(), 3), Account: now.Account,
		Pairs: []PairSummary{}, Queues: []QueueReport{},
		Breaks: since.Breaks.Count, BreakNs: since.Breaks.TotalNs,
		Cost: newCostReport(since.Costs, counted), at: now.Time.Sub(begin), length: length, breaks: newBreakReport(now.Breaks),
	}
	for _, p := range since.Pairs {
		i.Pairs = append(i.Pairs, newPairSummary(p))
	}
	for _, q := range since.Queues {
		i.Queues = append(i.Queues, newQueueReport(q, length))
	}
	return i
}

// seriesLimit bounds the points for the report: one hour at one per second. When it is
// reached every second point is dropped.
const seriesLimit = 3600

// series keeps points over time for the report's charts.
type series struct {
	points []point
	// stride: one in stride intervals is kept.
	stride, skipped int
}

// point is one interval without its histograms.
type point struct {
	at, length time.Duration
	pairs      []pairPoint
	queues     []QueueReport
	breaks     uint64
	breakNs    uint64
}

type pairPoint struct {
	name        string
	packets     uint64
	median, p99 [3]uint64
}

func (s *series) add(i Interval) {
	if s.skipped++; s.skipped < s.stride {
		return
	}
	s.skipped = 0
	p := point{
		at: i.at, length: i.length, queues: i.Queues,
		breaks: i.Breaks, breakNs: i.BreakNs,
	}
	for j := range p.queues {
		p.queues[j].sizes, p.queues[j].came = nil, nil
	}
	for _, pair := range i.Pairs {
		each := pairPoint{name: pair.Name(), packets: pair.Packets}
		for j, times := range []Times{pair.Stages.InputQueuing, pair.Stages.Processing, pair.Stages.OutputQueuing} {
			each.median[j], each.p99[j] = times.P50, times.P99
		}
		p.pairs = append(p.pairs, each)
	}
	s.points = append(s.points, p)
	if len(s.points) < seriesLimit {
		return
	}
	s.stride = 2 * max(s.stride, 1)
	for j := range s.points[:len(s.points)/2] {
		s.points[j] = s.points[2*j+1]
	}
	s.points = s.points[:len(s.points)/2]
}
