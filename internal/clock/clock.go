// Package clock reads the state of the kernel's clock: the TAI-UTC offset and the
// error bounds. It does not set the clock.
package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// State is the state of the kernel's clock (adjtimex(2), RFC 5905).
type State struct {
	// TAIOffset is TAI minus UTC: 37 s, or 0 if it was not set in the kernel.
	TAIOffset time.Duration
	// MaxError is the bound of the offset from UTC; the kernel increases it between
	// corrections, up to 16 s.
	MaxError time.Duration
	// EstimatedError is the synchronisation daemon's estimate of the offset.
	EstimatedError time.Duration
	// Offset is the remaining correction; 0 if a daemon only adjusts the frequency.
	Offset time.Duration
	// FrequencyPPM is the correction of the clock's frequency, parts per million.
	FrequencyPPM float64
	// Synchronised reports whether the clock is synchronised.
	Synchronised bool
}

// Read reads the state. It requires no privileges.
func Read() (State, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return State{}, fmt.Errorf("read clock state: %w", err)
	}
	offsetUnit := time.Microsecond
	if t.Status&unix.STA_NANO != 0 {
		offsetUnit = time.Nanosecond
	}
	return State{
		TAIOffset:      time.Duration(t.Tai)*time.Second - injected.Load().Offset(time.Now()),
		MaxError:       time.Duration(t.Maxerror) * time.Microsecond,
		EstimatedError: time.Duration(t.Esterror) * time.Microsecond,
		Offset:         time.Duration(t.Offset) * offsetUnit,
		FrequencyPPM:   float64(t.Freq) / (1 << 16),
		Synchronised:   state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0,
	}, nil
}

// MonotonicOffset is the real-time minus the monotonic clock, read as closely together as
// ReadBase does.
func MonotonicOffset() (time.Duration, error) {
	base, err := ReadMonotonicBase()
	return base.Distance, err
}

// ReadMonotonicBase is MonotonicOffset with its uncertainty.
func ReadMonotonicBase() (Base, error) {
	base, err := readBase(unix.CLOCK_MONOTONIC)
	base.Distance += injected.Load().Offset(time.Now())
	return base, err
}

// Base is the difference between the real-time and the monotonic clock. Frequency
// corrections apply to both: only a step of the real-time clock changes it.
type Base struct {
	Distance time.Duration
	// Uncertainty of Distance: the duration of the readings.
	Uncertainty time.Duration
}

// ReadBase reads both clocks several times and takes the closest readings.
func ReadBase() (Base, error) {
	base, err := readBase(unix.CLOCK_BOOTTIME)
	base.Distance += injected.Load().reported(time.Now())
	return base, err
}

func readBase(monotonic int32) (Base, error) {
	const attempts = 5
	best := Base{Uncertainty: 1<<63 - 1}
	for range attempts {
		var before, day, after unix.Timespec
		for _, reading := range []struct {
			clock int32
			into  *unix.Timespec
		}{{monotonic, &before}, {unix.CLOCK_REALTIME, &day}, {monotonic, &after}} {
			if err := unix.ClockGettime(reading.clock, reading.into); err != nil {
				return Base{}, fmt.Errorf("read clock %d: %w", reading.clock, err)
			}
		}
		took := time.Duration(after.Nano() - before.Nano())
		if took < best.Uncertainty {
			best = Base{Distance: time.Duration(day.Nano()-before.Nano()) - took/2, Uncertainty: took}
		}
	}
	return best, nil
}

// StepSince returns the step of the real-time clock since the earlier reading; 0 if it
// is within the readings' uncertainty.
func (b Base) StepSince(earlier Base) time.Duration {
	step := b.Distance - earlier.Distance
	if step.Abs() <= b.Uncertainty+earlier.Uncertainty {
		return 0
	}
	return step
}

// Tick is the length of a jiffy, the resolution of the coarse clocks.
func Tick() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &t); err != nil {
		return 0, fmt.Errorf("read clock resolution: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
