package clock

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// StepMin is the least change of the distance of two clocks that is taken for a step: readings may
// be some microseconds apart.
const StepMin = 10 * time.Microsecond

// Follower follows the distance of the real-time clock from the monotonic one, by which BPF programs
// tell the time. Only a step of the real-time clock changes it; the TAI offset does not matter. The zero value
// is ready; its methods may be called concurrently.
type Follower struct {
	mu      sync.Mutex
	base    Base
	known   bool
	at      time.Time // of the last reading
	step    time.Duration
	stepped bool
}

// Follow reads the clocks, and returns the real-time minus the monotonic clock: the closest reading
// since the last step.
func (f *Follower) Follow() (time.Duration, error) {
	base, err := ReadMonotonicBase()
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = time.Now()
	step := base.StepSince(f.base)
	if f.known && step.Abs() >= StepMin {
		f.step, f.stepped = f.step+step, true
	}
	if !f.known || step != 0 || base.Uncertainty < f.base.Uncertainty {
		f.base, f.known = base, true
	}
	return f.base.Distance, nil
}

// recentTime is how old a reading may be for a time that goes into a row.
const recentTime = 100 * time.Millisecond

// Recent is Follow for times of many packets: it reads the clocks once in a while, and returns
// the distance that was read last.
func (f *Follower) Recent() time.Duration {
	f.mu.Lock()
	distance, recent := f.base.Distance, f.known && time.Since(f.at) < recentTime
	f.mu.Unlock()
	if recent {
		return distance
	}
	if now, err := f.Follow(); err == nil {
		return now
	}
	return distance
}

// Step returns the sum of the steps that Follow has found since the last call, and whether there
// were any.
func (f *Follower) Step() (sum time.Duration, stepped bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum, stepped = f.step, f.stepped
	f.step, f.stepped = 0, false
	return sum, stepped
}

// Now is the real time by the distance that Follow returned last.
func (f *Follower) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	var monotonic unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) // cannot fail
	return time.Unix(0, monotonic.Nano()+int64(f.base.Distance)).UTC()
}
