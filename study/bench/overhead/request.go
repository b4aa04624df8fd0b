package main

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pillion.dev/study/bench/result"
	"pillion.dev/study/bench/thread"
)

const requestBurst = 64 // transactions between two readings of the clock

// requester exchanges requests and replies of one size.
type requester struct {
	*connection
	buffer []byte
}

// sendRequests exchanges requests and replies, one at a time, for the duration. The rate by
// CPU time is of the median burst.
func sendRequests(ctx context.Context, t *testbed, k traffic, core int, duration time.Duration) (sample, error) {
	c, err := connect(t, k.v6)
	if err != nil {
		return sample{}, err
	}
	defer c.close()
	r := requester{c, make([]byte, k.payload)}

	release, err := thread.Own(core)
	if err != nil {
		return sample{}, err
	}
	defer release()

	for range warmBursts {
		if err := r.burst(); err != nil {
			return sample{}, err
		}
	}
	var cpu []float64
	begin := time.Now()
	for time.Since(begin) < duration && ctx.Err() == nil {
		before := thread.CPUTime()
		if err := r.burst(); err != nil {
			return sample{}, err
		}
		cpu = append(cpu, float64(thread.CPUTime()-before)/requestBurst)
	}
	n := len(cpu) * requestBurst
	return sample{n, n, 1e9 / result.Median(cpu), float64(n) / time.Since(begin).Seconds()}, ctx.Err()
}

// burst makes requests and waits for the reply to each.
func (r *requester) burst() error {
	for range requestBurst {
		for _, step := range []struct {
			call       uintptr
			descriptor int
		}{{unix.SYS_WRITE, r.client}, {unix.SYS_READ, r.server}, {unix.SYS_WRITE, r.server}, {unix.SYS_READ, r.client}} {
			n, _, e := unix.Syscall(step.call, uintptr(step.descriptor), uintptr(unsafe.Pointer(&r.buffer[0])), uintptr(len(r.buffer)))
			if e != 0 {
				return fmt.Errorf("exchange %d bytes: %w", len(r.buffer), e)
			}
			if int(n) != len(r.buffer) {
				return fmt.Errorf("exchange %d bytes: only %d at once", len(r.buffer), n)
			}
		}
	}
	return nil
}
