package host

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"

	"pillion.dev/measure"
)

// Load is one reading of the load of the host.
type Load struct {
	Time time.Time
	// BusyPercent is the utilisation of all processors since the previous reading; negative without one.
	BusyPercent         float64
	CPUs                int
	Load1               float64
	MemoryTotal, Memory uint64  // bytes; Memory is in use, not available to programs
	Swap                uint64  // bytes in use
	busy, all           float64 // processor times since the host started, s
}

// ReadHost reads the load of the host; rates are relative to the previous reading.
func ReadHost(previous *Load) (*Load, error) {
	times, err := cpu.Times(false)
	average, averageErr := load.Avg()
	memory, memoryErr := mem.VirtualMemory()
	if err := errors.Join(err, averageErr, memoryErr); err != nil {
		return nil, fmt.Errorf("read load of the host: %w", err)
	}
	if len(times) == 0 {
		return nil, errors.New("read load of the host: no processor times")
	}
	// User and nice include guest time.
	t := times[0]
	idle := t.Idle + t.Iowait
	l := &Load{
		Time: time.Now(), BusyPercent: -1, CPUs: runtime.NumCPU(), Load1: average.Load1,
		MemoryTotal: memory.Total, Memory: memory.Total - min(memory.Available, memory.Total),
		Swap: memory.SwapTotal - min(memory.SwapFree, memory.SwapTotal),
		busy: t.User + t.Nice + t.System + t.Irq + t.Softirq + t.Steal,
	}
	if n, err := cpu.Counts(true); err == nil && n > 0 {
		l.CPUs = n // of the host; the process may be limited to fewer
	}
	l.all = l.busy + idle
	if previous != nil && l.all > previous.all {
		share := (l.busy - previous.busy) / (l.all - previous.all)
		l.BusyPercent = 100 * min(max(share, 0), 1)
	}
	return l, nil
}

// Samples returns the reading as a row of measure.Host.
func (l *Load) Samples() []measure.Sample {
	return []measure.Sample{{
		measure.TimeValue(l.Time),
		percent(l.BusyPercent),
		measure.Uint32Value(uint32(l.CPUs)),
		measure.Float64Value(l.Load1),
		measure.Uint64Value(l.MemoryTotal),
		measure.Uint64Value(l.Memory),
		measure.Uint64Value(l.Swap),
	}}
}

// percent returns a percentage, or null if it is negative: there was no previous reading.
func percent(v float64) measure.Value {
	if v < 0 {
		return measure.Value{}
	}
	return measure.Float64Value(v)
}

// ReadInterfaces reads the counters of all interfaces: one row of measure.Interfaces for each.
func ReadInterfaces() ([]measure.Sample, error) {
	counters, err := net.IOCounters(true)
	if err != nil {
		return nil, fmt.Errorf("read counters of interfaces: %w", err)
	}
	now := measure.TimeValue(time.Now())
	samples := make([]measure.Sample, 0, len(counters))
	for _, c := range counters {
		samples = append(samples, measure.Sample{
			now, measure.StringValue(c.Name),
			measure.Uint64Value(c.BytesSent), measure.Uint64Value(c.BytesRecv),
			measure.Uint64Value(c.PacketsSent), measure.Uint64Value(c.PacketsRecv),
			measure.Uint64Value(c.Dropout), measure.Uint64Value(c.Dropin),
			measure.Uint64Value(c.Errout), measure.Uint64Value(c.Errin),
		})
	}
	return samples, nil
}
