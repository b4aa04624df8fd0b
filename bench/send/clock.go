package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/bench/estimate"
)

// clock is what the sender's clock and sleep can do (seed 5, E1 and E2).
type clock struct {
	// ResolutionNS is what clock_getres says of CLOCK_MONOTONIC.
	ResolutionNS int64 `json:"resolution_ns"`
	// Between is the time between two successive readings.
	Between50 estimate.Estimate `json:"between_readings_p50_ns"`
	Between99 estimate.Estimate `json:"between_readings_p99_ns"`
	Sleeps    []*sleep          `json:"sleeps"`

	between [][]float64
}

// sleep is how much longer than asked for clock_nanosleep takes.
type sleep struct {
	Asked    time.Duration `json:"asked_ns"`
	Realtime bool          `json:"realtime"` // priority of the thread
	// Oversleep in microseconds.
	P50 estimate.Estimate `json:"p50_us"`
	P99 estimate.Estimate `json:"p99_us"`

	over [][]float64
}

func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail with this clock
	return t.Nano()
}

const (
	readings = 100_000
	sleeps   = 100
)

func newClock() (*clock, error) {
	var resolution unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC, &resolution); err != nil {
		return nil, fmt.Errorf("read clock resolution: %w", err)
	}
	c := &clock{ResolutionNS: resolution.Nano()}
	for _, realtime := range []bool{false, true} {
		for _, asked := range []time.Duration{10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
			c.Sleeps = append(c.Sleeps, &sleep{Asked: asked, Realtime: realtime})
		}
	}
	return c, nil
}

func (c *clock) name() string   { return "clock" }
func (c *clock) beside() string { return idle }

func (c *clock) run(context.Context, *experiment) error {
	between := make([]float64, readings)
	last := monotonic()
	for i := range between {
		here := monotonic()
		between[i], last = float64(here-last), here
	}
	c.between = append(c.between, between)
	for _, s := range c.Sleeps {
		if err := s.measure(); err != nil {
			return err
		}
	}
	return nil
}

func (c *clock) close() {
	c.Between50, c.Between99 = byBlock(c.between, quantile(0.5)), byBlock(c.between, quantile(0.99))
	for _, s := range c.Sleeps {
		s.P50, s.P99 = byBlock(s.over, quantile(0.5)), byBlock(s.over, quantile(0.99))
	}
}

// measure sleeps on a thread of its own, which ends with it.
func (s *sleep) measure() (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends
		if s.Realtime {
			fifo := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 40}
			if err = unix.SchedSetAttr(0, fifo, 0); err != nil {
				err = fmt.Errorf("set real-time priority: %w", err)
				return
			}
		}
		over := make([]float64, sleeps)
		for i := range over {
			until := monotonic() + int64(s.Asked)
			at := unix.NsecToTimespec(until)
			for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil) == unix.EINTR {
			}
			over[i] = float64(monotonic()-until) / 1e3
		}
		s.over = append(s.over, over)
	}()
	<-done
	return err
}

// priority of the thread that slept.
func (s *sleep) priority() string {
	if s.Realtime {
		return "real-time"
	}
	return "ordinary"
}
