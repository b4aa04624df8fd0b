package routerreport

import (
	"encoding/json"
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

// seriesLimit bounds the intervals that the report's charts show, which are about as wide. When it is reached every
// second one is dropped.
const seriesLimit = 600

// series keeps intervals for the report's charts, as JSON: without their histograms.
type series struct {
	intervals []json.RawMessage
	// stride: one in stride intervals is kept.
	stride, skipped int
}

func (s *series) add(i Interval) error {
	if s.skipped++; s.skipped < s.stride {
		return nil
	}
	s.skipped = 0
	text, err := json.Marshal(i)
	if err != nil {
		return err
	}
	if s.intervals = append(s.intervals, text); len(s.intervals) < seriesLimit {
		return nil
	}
	s.stride = 2 * max(s.stride, 1)
	for j := range seriesLimit / 2 {
		s.intervals[j] = s.intervals[2*j+1]
	}
	s.intervals = s.intervals[:seriesLimit/2]
	return nil
}
