package main

import (
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/shirou/gopsutil/v4/process"
)

// figures are what one step prints.
type figures struct {
	Agents  int     `json:"agents"`
	Joins   float64 `json:"joins_per_s"`
	Offered float64 `json:"rows_offered_per_s"`
	Rate    float64 `json:"rows_acknowledged_per_s"`
	// Lost rows left an agent's full queue; Waiting ones were not acknowledged at the end.
	Lost    int64   `json:"rows_lost"`
	Waiting int64   `json:"batches_waiting"`
	P50     float64 `json:"acknowledgement_p50_ms"`
	P99     float64 `json:"acknowledgement_p99_ms"`
	// Listing is the time of a list of all agents, by pages, after the measurement, and Listed how many there are.
	Listing float64                `json:"list_agents_ms"`
	Listed  int                    `json:"agents_listed"`
	Process map[string]processUsed `json:"processes"`
	Carried bool                   `json:"carried"`
}

// processUsed is what a process used; the crowd itself is one of them, and server, for example, is the
// sum of server1, server2 and so on.
type processUsed struct {
	CPU    float64 `json:"cpu_us_per_row"`
	Share  float64 `json:"cpu_cores"`
	Memory uint64  `json:"memory_bytes"`
}

// spent returns what was used between two readings; memory is taken from the second.
func spent(before, after map[string]processUsed, seconds float64, rows int64) map[string]processUsed {
	all := map[string]processUsed{}
	for name, now := range after {
		cpu := now.CPU - before[name].CPU
		one := processUsed{CPU: cpu * 1e6 / max(1, float64(rows)), Share: cpu / seconds, Memory: now.Memory}
		all[name] = one
		if role := strings.TrimRight(name, "0123456789"); role != name {
			sum := all[role]
			all[role] = processUsed{CPU: sum.CPU + one.CPU, Share: sum.Share + one.Share, Memory: sum.Memory + one.Memory}
		}
	}
	return all
}

// dropped returns the rows that left full queues.
func (c *crowd) dropped() (rows int64) {
	for _, h := range c.hosts {
		rows += h.sending.State().DroppedRows
	}
	return rows
}

// waiting returns the batches that are not acknowledged.
func (c *crowd) waiting() (batches int64) {
	for _, h := range c.hosts {
		batches += h.sending.State().Batches
	}
	return batches
}

// used returns the CPU time, in seconds, and the memory of each process.
func (c *crowd) used() (map[string]processUsed, error) {
	ids := map[string]int{"crowd": os.Getpid()}
	maps.Copy(ids, c.settings.steps.measured)
	all := map[string]processUsed{}
	for name, id := range ids {
		p, err := process.NewProcess(int32(id))
		if err != nil {
			return nil, fmt.Errorf("read usage of %s: %w", name, err)
		}
		times, err := p.Times()
		if err != nil {
			return nil, fmt.Errorf("read CPU time of %s: %w", name, err)
		}
		memory, err := p.MemoryInfo()
		if err != nil {
			return nil, fmt.Errorf("read memory of %s: %w", name, err)
		}
		all[name] = processUsed{CPU: times.User + times.System, Memory: memory.RSS}
	}
	return all, nil
}
