package host

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/agent/spool"
	"pillion.dev/measure"
	"pillion.dev/probe/hook"
)

// Cost is one reading of the resources that the agent's processes use, and of its spool.
type Cost struct {
	Time time.Time
	// BusyPercent of one processor since the previous reading; negative without one.
	BusyPercent float64
	Memory      uint64 // resident bytes
	Goroutines  int
	Spool       spool.Stats
	Probe       *hook.Cost // of the BPF programs; nil unless kernel.bpf_stats_enabled is 1
	used        time.Duration
}

// Usage is what a process has used.
type Usage struct {
	Processor  time.Duration `json:"processor_ns"` // since its start
	Memory     uint64        `json:"memory"`       // resident bytes
	Goroutines int           `json:"goroutines"`
}

// ReadUsage reads the usage of this process.
func ReadUsage() (Usage, error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return Usage{}, fmt.Errorf("read processor time of the agent: %w", err)
	}
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return Usage{}, fmt.Errorf("read memory of the agent: %w", err)
	}
	var size, resident uint64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return Usage{}, fmt.Errorf("read memory of the agent: %q: %w", text, err)
	}
	return Usage{
		Processor: time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), Memory: resident * uint64(os.Getpagesize()),
		Goroutines: runtime.NumGoroutine(),
	}, nil
}

// ReadAgent reads the cost of this process, and of the agent's other process unless other is nil; rates are
// relative to the previous reading. probe may be nil.
func ReadAgent(previous *Cost, held spool.Stats, probe *hook.Cost, other *Usage) (*Cost, error) {
	used, err := ReadUsage()
	if err != nil {
		return nil, err
	}
	if other != nil {
		used.Processor += other.Processor
		used.Memory += other.Memory
		used.Goroutines += other.Goroutines
	}
	c := &Cost{
		Time: time.Now(), BusyPercent: -1, Memory: used.Memory, Goroutines: used.Goroutines, Spool: held, Probe: probe, used: used.Processor,
	}
	if previous != nil {
		// Both readings carry the monotonic clock, which steps do not affect.
		if passed := c.Time.Sub(previous.Time); passed > 0 {
			c.BusyPercent = 100 * float64(max(c.used-previous.used, 0)) / float64(passed)
		}
	}
	return c, nil
}

// Samples is one sample of measure.Agent.
func (c *Cost) Samples() []measure.Sample {
	var probeTime, probeRuns measure.Value
	if c.Probe != nil {
		probeTime, probeRuns = measure.Uint64Value(uint64(c.Probe.Time)), measure.Uint64Value(c.Probe.Runs)
	}
	count := func(n int64) measure.Value { return measure.Uint64Value(uint64(max(n, 0))) }
	return []measure.Sample{{
		measure.TimeValue(c.Time),
		percent(c.BusyPercent),
		measure.Uint64Value(c.Memory),
		measure.Uint32Value(uint32(c.Goroutines)),
		count(c.Spool.Batches), count(c.Spool.Bytes),
		count(c.Spool.DroppedBatches), count(c.Spool.DroppedRows),
		count(c.Spool.Rejected),
		count(c.Spool.SentBatches), count(c.Spool.SentRows),
		probeTime, probeRuns,
	}}
}
