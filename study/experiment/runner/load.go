package runner

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/study/experiment"
)

// processorTime is what all processors of this machine have done since it started.
type processorTime struct {
	busy, stolen, all float64 // seconds
	at                time.Time
}

const ticks = 100 // USER_HZ, the same on all machines

// readProcessors reads the first line of /proc/stat.
func readProcessors() (processorTime, bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return processorTime{}, false
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return parseProcessors(line, time.Now())
}

// parseProcessors reads: cpu user nice system idle iowait irq softirq steal guest guest_nice.
func parseProcessors(line []byte, now time.Time) (processorTime, bool) {
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return processorTime{}, false
	}
	p := processorTime{at: now}
	for i, field := range fields[1:9] {
		value, err := strconv.ParseFloat(string(field), 64)
		if err != nil {
			return processorTime{}, false
		}
		seconds := value / ticks
		p.all += seconds
		switch i {
		case 3, 4: // idle, iowait
		case 7:
			p.stolen = seconds
		default:
			p.busy += seconds
		}
	}
	return p, true
}

// leastPause is the time below which ticks are too coarse for a load.
const leastPause = 100 * time.Millisecond

// loadSince is the number of processors that were busy.
func (p processorTime) loadSince(before processorTime) *float64 {
	elapsed := p.at.Sub(before.at)
	if elapsed < leastPause {
		return nil
	}
	load := (p.busy - before.busy) / elapsed.Seconds()
	return &load
}

// stealSince is the share of time that a hypervisor withheld.
func (p processorTime) stealSince(before processorTime) *float64 {
	if p.all <= before.all {
		return nil
	}
	share := (p.stolen - before.stolen) / (p.all - before.all)
	return &share
}

// settle pauses, and measures the load of the machine meanwhile. It goes on until the load
// is as low as required.
func (m *measurement) settle(ctx context.Context) (load *float64, err error) {
	length := time.Duration(*m.spec.Run.Settle)
	require := m.spec.Environment.Require
	read := m.processors
	if read == nil {
		read = readProcessors
	}
	if require.LoadBelow > 0 {
		length = max(length, leastPause)
	}
	begin, said := time.Now(), time.Time{}
	for {
		before, ok := read()
		if err := pause(ctx, length); err != nil {
			return nil, err
		}
		after, _ := read()
		if ok {
			load = after.loadSince(before)
		}
		if require.LoadBelow == 0 || load != nil && *load < require.LoadBelow {
			return load, nil
		}
		if load == nil {
			return nil, fmt.Errorf("wait for a load below %g: /proc/stat cannot be read", require.LoadBelow)
		}
		if time.Since(begin) > time.Duration(require.Wait) {
			return load, fmt.Errorf("%w: others keep %.2f processors busy, the limit is %g, after waiting for %s", ErrLoad, *load, require.LoadBelow, require.Wait)
		}
		if !m.deadline.IsZero() && time.Now().After(m.deadline) {
			return load, fmt.Errorf("%w: %s are over while waiting, for %s, until others keep fewer than %g processors busy: it is %.2f",
				ErrBudget, m.spec.Stop.Budget, round(time.Since(begin)), require.LoadBelow, *load)
		}
		if time.Since(said) > 10*time.Second {
			m.say("waiting: others keep %.2f processors busy, the limit is %g", *load, require.LoadBelow)
			said = time.Now()
		}
	}
}

// readClock asks the kernel for the state of the system clock.
func readClock() *experiment.Clock {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return nil
	}
	offset := int64(t.Offset)
	if t.Status&unix.STA_NANO == 0 {
		offset *= 1000
	}
	return &experiment.Clock{
		Synchronized: state != unix.TIME_ERROR, OffsetNs: offset, MaxErrorNs: int64(t.Maxerror) * 1000,
	}
}
