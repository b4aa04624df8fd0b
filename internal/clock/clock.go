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
	return State{
		TAIOffset:    time.Duration(t.Tai) * time.Second,
		MaxError:     time.Duration(t.Maxerror) * time.Microsecond,
		Synchronised: state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0,
	}, nil
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
