package profile

import (
	"time"

	"pillion.dev/probe/router"
)

// CostReport is what the profile itself cost the processors, as the kernel counts it.
type CostReport struct {
	Hooks []HookCost `json:"hooks"`
	// HookNs is the mean of all runs, PacketNs the sum for each packet that ended.
	HookNs   float64 `json:"hook_ns"`
	PacketNs float64 `json:"packet_ns"`
	// Share of one processor.
	Share float64 `json:"processor_share"`
}

// HookCost is one program's.
type HookCost struct {
	Program string  `json:"program"`
	Runs    uint64  `json:"runs"`
	RunNs   float64 `json:"run_ns"`
	TotalNs uint64  `json:"total_ns"`
}

func newCostReport(now router.Snapshot, length time.Duration) *CostReport {
	if now.Costs == nil {
		return nil
	}
	report := &CostReport{Hooks: []HookCost{}}
	var runs uint64
	var total time.Duration
	for _, c := range now.Costs {
		if c.Runs == 0 {
			continue
		}
		runs += c.Runs
		total += c.Time
		report.Hooks = append(report.Hooks, HookCost{
			Program: c.Program, Runs: c.Runs, RunNs: round(float64(c.Time)/float64(c.Runs), 1), TotalNs: uint64(c.Time),
		})
	}
	if runs > 0 {
		report.HookNs = round(float64(total)/float64(runs), 1)
	}
	if n := now.Account.Forwarded + now.Account.Local + now.Account.Dropped; n > 0 {
		report.PacketNs = round(float64(total)/float64(n), 1)
	}
	if length > 0 {
		report.Share = round(float64(total)/float64(length), 6)
	}
	return report
}
