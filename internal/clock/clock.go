// Package clock reads what the kernel knows of its own clock: the distance
// between TAI and UTC, and how far the clock may be off. It sets nothing.
package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// State is the kernel's account of its clock (adjtimex(2), RFC 5905).
type State struct {
	// TAIOffset is TAI minus UTC: 37 s, or 0 where nothing told the kernel.
	TAIOffset time.Duration
	// MaxError bounds the clock's offset from UTC; the kernel lets it grow
	// between corrections, up to 16 s.
	MaxError time.Duration
	// EstimatedError is the estimate of that offset by what disciplines the clock.
	EstimatedError time.Duration
	// Offset is what the kernel has still to correct; 0 where a daemon steers the
	// frequency alone.
	Offset time.Duration
	// FrequencyPPM is the correction of the clock's frequency, parts per million.
	FrequencyPPM float64
	// Synchronised says whether something disciplines the clock.
	Synchronised bool
}

// Read asks the kernel. It changes nothing and needs no privilege.
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
		TAIOffset:      time.Duration(t.Tai) * time.Second,
		MaxError:       time.Duration(t.Maxerror) * time.Microsecond,
		EstimatedError: time.Duration(t.Esterror) * time.Microsecond,
		Offset:         time.Duration(t.Offset) * offsetUnit,
		FrequencyPPM:   float64(t.Freq) / (1 << 16),
		Synchronised:   state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0,
	}, nil
}

// Base is the distance of the clock of day from the steady clock that runs since
// the host started. Corrections of the frequency change both alike: only a step
// of the clock of day changes their distance.
type Base struct {
	Distance time.Duration
	// Uncertainty of Distance: the time that the readings took.
	Uncertainty time.Duration
}

// ReadBase reads both clocks several times and takes the closest readings.
func ReadBase() (Base, error) {
	const attempts = 5
	best := Base{Uncertainty: 1<<63 - 1}
	for range attempts {
		var before, day, after unix.Timespec
		for _, reading := range []struct {
			clock int32
			into  *unix.Timespec
		}{{unix.CLOCK_BOOTTIME, &before}, {unix.CLOCK_REALTIME, &day}, {unix.CLOCK_BOOTTIME, &after}} {
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

// StepSince is how far the clock of day jumped since the earlier reading; 0 where
// the difference is not more than the readings' uncertainty.
func (b Base) StepSince(earlier Base) time.Duration {
	step := b.Distance - earlier.Distance
	if step.Abs() <= b.Uncertainty+earlier.Uncertainty {
		return 0
	}
	return step
}

// Tick is the time between two of the kernel's ticks (jiffies): what the coarse
// clocks resolve.
func Tick() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &t); err != nil {
		return 0, fmt.Errorf("read clock resolution: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
