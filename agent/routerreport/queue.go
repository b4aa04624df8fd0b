package routerreport

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
	Ended      uint64 `json:"ended"` // of those that left: went no further
	Depth      uint64 `json:"depth"`
	MaxDepth   uint64 `json:"max_depth"`
	RecentMax  uint64 `json:"recent_max_depth"`
	// What the kernel itself says: the backlog of its processors, or its qdisc.
	KernelDepth    uint64 `json:"kernel_depth"`
	KernelMaxDepth uint64 `json:"kernel_max_depth"`
	// FoundMean and KernelMean are what packets found when they left, by our counts
	// and by the kernel's, at the same instants; Compared is how many.
	Compared   uint64  `json:"compared"`
	FoundMean  float64 `json:"found_mean"`
	KernelMean float64 `json:"kernel_found_mean"`
	// Little is Little's law, both sides counted apart.
	Little router.Little `json:"little"`
	sizes  []uint64
	came   []uint64
}

// Name of the queue, for people.
func (q QueueReport) Name() string {
	if q.Interface == "" {
		return "others " + q.Side
	}
	return q.Interface + " " + q.Side
}

func newQueueReport(q router.Queue, length time.Duration) QueueReport {
	r := QueueReport{
		Interface: q.Interface.Name, Side: "output",
		Arrivals: q.Arrivals, Departures: q.Departures, Ended: q.Ended,
		Depth: q.Depth, MaxDepth: q.MaxDepth, RecentMax: q.RecentMax,
		KernelDepth: q.KernelDepth, KernelMaxDepth: q.KernelMax, Compared: q.Compared,
		Little: q.Little(length), sizes: q.Sizes, came: q.Came,
	}
	if q.Input {
		r.Side = "input"
	}
	r.FoundMean, r.KernelMean = q.Means()
	r.FoundMean, r.KernelMean = round(r.FoundMean, 3), round(r.KernelMean, 3)
	return r
}
