package routerreport

import (
	"errors"
	"sync"
	"time"

	"pillion.dev/agent/runner"
	"pillion.dev/internal/quantity"
	"pillion.dev/probe/router"
)

// countPart is the fraction of the time, 1 in countPart, in which the kernel measures run
// times. Measuring delays a packet by some tenths of a microsecond, so most packets should
// not be affected.
const countPart = 10

// packetProgram runs once for each packet whose IP processing starts.
const packetProgram = "router_pre_routing"

// CostReport is the processor time used by the profile itself, as measured by the kernel
// at the beginning of each interval.
type CostReport struct {
	CountedS float64    `json:"counted_s"`
	Hooks    []HookCost `json:"hooks"`
	// HookNs is the mean of all runs. PacketNs is their total time divided by the packets
	// whose IP processing started in the router, although hooks run for other packets too.
	HookNs   float64 `json:"hook_ns"`
	PacketNs float64 `json:"packet_ns"`
	// Share is the fraction of one processor.
	Share float64 `json:"processor_share"`
}

// MarshalJSON writes null for the time of no run, and of no packet.
func (c CostReport) MarshalJSON() ([]byte, error) {
	type figures CostReport
	var unknown []string
	if c.HookNs == 0 {
		unknown = append(unknown, "hook_ns")
	}
	if c.PacketNs == 0 {
		unknown = append(unknown, "packet_ns")
	}
	return quantity.MarshalMeasured(len(unknown) == 0, figures(c), unknown...)
}

// HookCost is the cost of one program.
type HookCost struct {
	Program string  `json:"program"`
	Runs    uint64  `json:"runs"`
	RunNs   float64 `json:"run_ns"`
	TotalNs uint64  `json:"total_ns"`
}

func newCostReport(costs []router.Cost, counted time.Duration) *CostReport {
	if costs == nil {
		return nil
	}
	report := &CostReport{CountedS: round(counted.Seconds(), 3), Hooks: []HookCost{}}
	var runs, packets uint64
	var total time.Duration
	for _, c := range costs {
		if c.Runs == 0 {
			continue
		}
		runs += c.Runs
		total += c.Time
		if c.Program == packetProgram {
			packets = c.Runs
		}
		report.Hooks = append(report.Hooks, HookCost{
			Program: c.Program, Runs: c.Runs, RunNs: round(float64(c.Time)/float64(c.Runs), 1), TotalNs: uint64(c.Time),
		})
	}
	if runs > 0 {
		report.HookNs = round(float64(total)/float64(runs), 1)
	}
	if packets > 0 {
		report.PacketNs = round(float64(total)/float64(packets), 1)
	}
	if counted > 0 {
		report.Share = round(float64(total)/float64(counted), 6)
	}
	return report
}

// counting measures costs in a part of each interval, and sums up the time.
type counting struct {
	probe *runner.Router // nil: nothing is counted
	part  time.Duration  // of an interval

	mu     sync.Mutex
	since  time.Time // zero: not now
	sum    time.Duration
	failed error
}

func (c *counting) begin() error {
	if c.probe == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.probe.CountCosts(true)
	c.since = time.Now() // enabling takes the kernel a while
	time.AfterFunc(c.part, func() { _ = c.end() })
	return err
}

// end stops measuring, and returns the errors so far. The sum does not change before the
// next begin.
func (c *counting) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() {
		c.sum += time.Since(c.since)
		c.since = time.Time{}
		c.failed = errors.Join(c.failed, c.probe.CountCosts(false))
	}
	return c.failed
}
