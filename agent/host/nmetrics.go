package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"

	"pillion.dev/measure"
)

// The points of OML's nmetrics, with its names and semantics: counters run since the
// host booted.
var (
	NmetricsCPU = measure.Schema{Name: "nmetrics_cpu", Doc: "OML nmetrics: processor time since boot", Fields: []measure.Field{
		measure.TimeField,
		{Name: "user", Type: measure.Uint64, Unit: "ms", Doc: "user time, all processors"},
		{Name: "sys", Type: measure.Uint64, Unit: "ms", Doc: "kernel time"},
		{Name: "nice", Type: measure.Uint64, Unit: "ms", Doc: "user time at low priority"},
		{Name: "idle", Type: measure.Uint64, Unit: "ms", Doc: "idle"},
		{Name: "wait", Type: measure.Uint64, Unit: "ms", Doc: "idle, waiting for I/O"},
		{Name: "irq", Type: measure.Uint64, Unit: "ms", Doc: "interrupts"},
		{Name: "soft_irq", Type: measure.Uint64, Unit: "ms", Doc: "soft interrupts"},
		{Name: "stolen", Type: measure.Uint64, Unit: "ms", Doc: "used by other virtual machines"},
		{Name: "total", Type: measure.Uint64, Unit: "ms", Doc: "sum of all"},
	}}
	NmetricsMemory = measure.Schema{Name: "nmetrics_memory", Doc: "OML nmetrics: memory", Fields: []measure.Field{
		measure.TimeField,
		{Name: "ram", Type: measure.Uint64, Unit: "MiB", Doc: "installed memory"},
		{Name: "total", Type: measure.Uint64, Unit: "bytes", Doc: "installed memory"},
		{Name: "used", Type: measure.Uint64, Unit: "bytes", Doc: "total less free"},
		{Name: "free", Type: measure.Uint64, Unit: "bytes", Doc: "unused"},
		{Name: "actual_used", Type: measure.Uint64, Unit: "bytes", Doc: "used, without buffers and caches"},
		{Name: "actual_free", Type: measure.Uint64, Unit: "bytes", Doc: "free, including buffers and caches"},
	}}
	NmetricsNet = measure.Schema{Name: "nmetrics_net", Doc: "OML nmetrics: interface counters since boot", Fields: []measure.Field{
		measure.TimeField,
		{Name: "name", Type: measure.String, Doc: "interface"},
		{Name: "rx_packets", Type: measure.Uint64, Unit: "packets", Doc: "received"},
		{Name: "rx_bytes", Type: measure.Uint64, Unit: "bytes", Doc: "received"},
		{Name: "rx_errors", Type: measure.Uint64, Unit: "packets", Doc: "receive errors"},
		{Name: "rx_dropped", Type: measure.Uint64, Unit: "packets", Doc: "dropped on receive"},
		{Name: "rx_overruns", Type: measure.Uint64, Unit: "packets", Doc: "receive FIFO overruns"},
		{Name: "tx_packets", Type: measure.Uint64, Unit: "packets", Doc: "sent"},
		{Name: "tx_bytes", Type: measure.Uint64, Unit: "bytes", Doc: "sent"},
		{Name: "tx_errors", Type: measure.Uint64, Unit: "packets", Doc: "transmit errors"},
		{Name: "tx_dropped", Type: measure.Uint64, Unit: "packets", Doc: "dropped on transmit"},
		{Name: "tx_overruns", Type: measure.Uint64, Unit: "packets", Doc: "transmit FIFO overruns"},
	}}
)

// Nmetrics are these points.
func Nmetrics() []*measure.Schema {
	return []*measure.Schema{&NmetricsCPU, &NmetricsMemory, &NmetricsNet, &NmetricsProcess}
}

// ReadNmetricsCPU reads the one sample of NmetricsCPU.
func ReadNmetricsCPU() ([]measure.Sample, error) {
	times, err := cpu.Times(false)
	if err == nil && len(times) == 0 {
		err = errors.New("none reported")
	}
	if err != nil {
		return nil, fmt.Errorf("read processor times: %w", err)
	}
	t := times[0]
	sample, total := measure.Sample{measure.TimeValue(time.Now())}, 0.0
	for _, seconds := range []float64{t.User, t.System, t.Nice, t.Idle, t.Iowait, t.Irq, t.Softirq, t.Steal} {
		total += seconds
		sample = append(sample, milliseconds(seconds))
	}
	return []measure.Sample{append(sample, milliseconds(total))}, nil
}

func milliseconds(seconds float64) measure.Value {
	return measure.Uint64Value(uint64(max(seconds, 0)*1000 + 0.5))
}

// ReadNmetricsMemory reads the one sample of NmetricsMemory.
func ReadNmetricsMemory() ([]measure.Sample, error) {
	m, err := mem.VirtualMemory()
	if err != nil {
		return nil, fmt.Errorf("read memory of the host: %w", err)
	}
	free := min(m.Free+m.Buffers+m.Cached, m.Total)
	sample := measure.Sample{measure.TimeValue(time.Now())}
	for _, n := range []uint64{m.Total >> 20, m.Total, m.Total - min(m.Free, m.Total), m.Free, m.Total - free, free} {
		sample = append(sample, measure.Uint64Value(n))
	}
	return []measure.Sample{sample}, nil
}

// ReadNmetricsNet reads a sample of NmetricsNet for each interface.
func ReadNmetricsNet() ([]measure.Sample, error) {
	counters, err := net.IOCounters(true)
	if err != nil {
		return nil, fmt.Errorf("read counters of interfaces: %w", err)
	}
	now := measure.TimeValue(time.Now())
	samples := make([]measure.Sample, 0, len(counters))
	for _, c := range counters {
		sample := measure.Sample{now, measure.StringValue(c.Name)}
		for _, n := range []uint64{
			c.PacketsRecv, c.BytesRecv, c.Errin, c.Dropin, c.Fifoin,
			c.PacketsSent, c.BytesSent, c.Errout, c.Dropout, c.Fifoout,
		} {
			sample = append(sample, measure.Uint64Value(n))
		}
		samples = append(samples, sample)
	}
	return samples, nil
}
