package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// clock is what the sender's clock and sleep can do (seed 5, E1 and E2).
type clock struct {
	// ResolutionNS is what clock_getres says of CLOCK_MONOTONIC.
	ResolutionNS int64 `json:"resolution_ns"`
	// Between is the time between two successive readings.
	Between quantiles `json:"between_readings_ns"`
	Sleeps  []sleep   `json:"sleeps"`
}

// sleep is how much longer than asked for clock_nanosleep takes.
type sleep struct {
	Asked    time.Duration `json:"asked_ns"`
	Realtime bool          `json:"realtime"` // priority of the thread
	Over     quantiles     `json:"oversleep_ns"`
}

// quantiles of measured times in nanoseconds.
type quantiles struct {
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

func quantilesOf(values []int64) quantiles {
	slices.Sort(values)
	n := len(values)
	return quantiles{values[n/2], values[n*99/100], values[n-1]}
}

func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail with this clock
	return t.Nano()
}

const (
	readings = 1_000_000
	sleeps   = 300
)

func measureClock() (*clock, error) {
	var resolution unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC, &resolution); err != nil {
		return nil, fmt.Errorf("read clock resolution: %w", err)
	}
	c := &clock{ResolutionNS: resolution.Nano()}
	between := make([]int64, readings)
	last := monotonic()
	for i := range between {
		here := monotonic()
		between[i], last = here-last, here
	}
	c.Between = quantilesOf(between)
	for _, realtime := range []bool{false, true} {
		for _, asked := range []time.Duration{10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
			s, err := measureSleep(asked, realtime)
			if err != nil {
				return nil, err
			}
			c.Sleeps = append(c.Sleeps, s)
		}
	}
	return c, nil
}

// measureSleep sleeps on a thread of its own, which ends with it.
func measureSleep(asked time.Duration, realtime bool) (s sleep, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends
		if realtime {
			fifo := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 40}
			if err = unix.SchedSetAttr(0, fifo, 0); err != nil {
				err = fmt.Errorf("set real-time priority: %w", err)
				return
			}
		}
		over := make([]int64, sleeps)
		for i := range over {
			until := monotonic() + int64(asked)
			at := unix.NsecToTimespec(until)
			for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil) == unix.EINTR {
			}
			over[i] = monotonic() - until
		}
		s = sleep{asked, realtime, quantilesOf(over)}
	}()
	<-done
	return s, err
}

func (c *clock) print() {
	fmt.Printf("clock: resolution %d ns, between two readings p50 %d, p99 %d ns\n", c.ResolutionNS, c.Between.P50, c.Between.P99)
	for _, s := range c.Sleeps {
		priority := "ordinary"
		if s.Realtime {
			priority = "real-time"
		}
		fmt.Printf("clock_nanosleep %v, %s priority: oversleep p50 %.1f, p99 %.1f us\n", s.Asked, priority, float64(s.Over.P50)/1e3, float64(s.Over.P99)/1e3)
	}
	fmt.Println()
}
