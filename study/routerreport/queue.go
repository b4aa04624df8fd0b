package routerreport

import (
	"time"

	"pillion.dev/internal/quantity"
	"pillion.dev/probe/router"
)

// QueueReport summarises the queue at one side of an interface.
type QueueReport struct {
	Interface  string `json:"interface"`
	Side       string `json:"side"` // input: between t1 and t2; output: between t3 and t4
	Arrivals   uint64 `json:"arrivals"`
	Departures uint64 `json:"departures"`
	Ended      uint64 `json:"ended"` // departures of packets that ended in the queue
	Depth      uint64 `json:"depth"`
	MaxDepth   uint64 `json:"max_depth"`
	RecentMax  uint64 `json:"recent_max_depth"`
	// The kernel's own figures: the backlog of its processors, or of the qdisc.
	KernelDepth    uint64 `json:"kernel_depth"`
	KernelMaxDepth uint64 `json:"kernel_max_depth"`
	// FoundMean and KernelMean are the mean queue sizes at the departures of packets, by our
	// counts and by the kernel's; Compared is the number of those departures.
	Compared   uint64  `json:"compared"`
	FoundMean  float64 `json:"found_mean"`
	KernelMean float64 `json:"kernel_found_mean"`
	// Little has both sides of Little's law, measured independently.
	Little router.Little `json:"little"`
	sizes  []uint64
	came   []uint64
}

// MarshalJSON writes null for means of no packet.
func (q QueueReport) MarshalJSON() ([]byte, error) {
	type figures QueueReport
	return quantity.MarshalMeasured(q.Compared > 0, figures(q), "found_mean", "kernel_found_mean")
}

// Name of the queue for display.
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
