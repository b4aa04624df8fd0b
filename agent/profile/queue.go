package profile

import (
	"time"

	"pillion.dev/probe/router"
)

// QueueReport is one side of an interface over a time.
type QueueReport struct {
	Interface  string `json:"interface"`
	Side       string `json:"side"` // input: between t1 and t2; output: between t3 and t4
	Arrivals   uint64 `json:"arrivals"`
	Departures uint64 `json:"departures"`
	Depth      uint64 `json:"depth"`
	MaxDepth   uint64 `json:"max_depth"`
	// What the kernel itself said when packets came: its backlog, or its qdisc.
	KernelDepth    uint64 `json:"kernel_depth"`
	KernelMaxDepth uint64 `json:"kernel_max_depth"`
	// Little's law: the mean depth over time is the rate of departures times the mean
	// wait. The two are counted apart; where they differ, packets were not seen.
	MeanDepth float64 `json:"mean_depth"`
	RateTimes float64 `json:"rate_times_wait"`
	Rate      float64 `json:"departures_per_s"`
	WaitNs    float64 `json:"mean_wait_ns"`
	sizes     []uint64
}

// Name of the queue, for people.
func (q QueueReport) Name() string { return q.Interface + " " + q.Side }

func newQueueReport(q router.Queue, length time.Duration) QueueReport {
	r := QueueReport{
		Interface: q.Interface.Name, Side: "output", Arrivals: q.Arrivals, Departures: q.Departures,
		Depth: q.Depth, MaxDepth: q.MaxDepth, KernelDepth: q.KernelDepth, KernelMaxDepth: q.KernelMax, sizes: q.Sizes,
	}
	if q.Input {
		r.Side = "input"
	}
	if length > 0 {
		r.MeanDepth = round(float64(q.IntegralNs)/float64(length), 6)
		r.RateTimes = round(float64(q.WaitedNs)/float64(length), 6)
		r.Rate = round(float64(q.Departures)/length.Seconds(), 1)
	}
	if q.Departures > 0 {
		r.WaitNs = round(float64(q.WaitedNs)/float64(q.Departures), 1)
	}
	return r
}

// BreakReport is coffee breaks together.
type BreakReport struct {
	Count     uint64            `json:"count"`
	TotalNs   uint64            `json:"total_ns"`
	LongestNs uint64            `json:"longest_ns"`
	Unsent    uint64            `json:"unsent"`
	Causes    map[string]uint64 `json:"causes"`
	Length    Times             `json:"length_ns"`
	// Between is the median of how many packets were processed from one to the next.
	Between uint64 `json:"p50_packets_between"`
	between []uint64
}

func newBreakReport(b router.Breaks) BreakReport {
	causes := b.Causes
	if causes == nil {
		causes = map[string]uint64{}
	}
	return BreakReport{
		Count: b.Count, TotalNs: b.TotalNs, LongestNs: b.LongNs, Unsent: b.Unsent, Causes: causes,
		Length: newTimes(b.Lengths), Between: medianOf(b.Between), between: b.Between,
	}
}

// medianOf counts of 0, 1, 2 and so on.
func medianOf(counts []uint64) uint64 {
	var all, below uint64
	for _, n := range counts {
		all += n
	}
	for i, n := range counts {
		if below += n; 2*below >= all && all > 0 {
			return uint64(i)
		}
	}
	return 0
}
