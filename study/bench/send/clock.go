package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/study/bench/result"
)

func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail with this clock
	return t.Nano()
}

// clockCommand measures what the sender's clock and sleep can do (seed 5, E1 and E2): the time between two successive
// readings, and how much longer than asked for clock_nanosleep takes.
func clockCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	readings := f.Int("readings", 100_000, "readings of the clock")
	sleeps := f.Int("sleeps", 100, "sleeps")
	asked := f.Duration("sleep", 100*time.Microsecond, "duration of a sleep")
	realtime := f.Bool("realtime", false, "sleep at real-time priority")
	return func(context.Context) (result.Result, error) {
		var resolution unix.Timespec
		if err := unix.ClockGetres(unix.CLOCK_MONOTONIC, &resolution); err != nil {
			return nil, fmt.Errorf("read clock resolution: %w", err)
		}
		between := make([]int64, *readings)
		last := monotonic()
		for i := range between {
			here := monotonic()
			between[i], last = here-last, here
		}
		over, err := oversleep(*sleeps, *asked, *realtime)
		if err != nil {
			return nil, err
		}
		r := result.Result{"resolution_ns": resolution.Nano()}
		result.NewSample(between).Put(r, "between")
		result.NewSample(over).Put(r, "oversleep")
		return r, nil
	}
}

// oversleep sleeps on a thread of its own, which ends with it.
func oversleep(n int, asked time.Duration, realtime bool) (over []int64, err error) {
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
		over = make([]int64, n)
		for i := range over {
			until := monotonic() + int64(asked)
			at := unix.NsecToTimespec(until)
			for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil) == unix.EINTR {
			}
			over[i] = monotonic() - until
		}
	}()
	<-done
	return over, err
}
