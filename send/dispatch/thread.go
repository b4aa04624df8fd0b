package dispatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// realtime is the SCHED_FIFO priority of senders, below the kernel's interrupt threads (50).
const realtime = 40

// sleepSlice is the longest sleep before a thread looks for cancellation.
const sleepSlice = 50 * time.Millisecond

// onThread runs f on an operating system thread of its own, which ends with f: in the
// namespace, if one is given, with all signals blocked so that none interrupts a train.
func onThread(namespace *os.File, f func() error) error {
	result := errors.New("thread ended early")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if namespace != nil {
			if err := netns.Set(netns.NsHandle(namespace.Fd())); err != nil {
				result = fmt.Errorf("enter network namespace: %w", err)
				return
			}
		}
		result = f()
	}()
	<-done
	return result
}

func blockSignals() error {
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	return unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil)
}

// prioritise makes the calling thread a real-time thread.
func prioritise() error {
	attributes := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: realtime}
	return unix.SchedSetAttr(0, attributes, 0)
}

// leaveProcessor moves the calling thread to another of its processors and reports whether
// there is one. Ordinary threads that waited for the processor can run then, so that the
// scheduler has no reason to stop a real-time thread for their sake.
func leaveProcessor() bool {
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil {
		return false
	}
	var here uint32
	_, _, e := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&here)), 0, 0)
	others := all
	others.Clear(int(here))
	if e != 0 || others.Count() == 0 || unix.SchedSetaffinity(0, &others) != nil {
		return false
	}
	return unix.SchedSetaffinity(0, &all) == nil
}

// now is CLOCK_MONOTONIC in nanoseconds.
func now() int64 { return nowOf(unix.CLOCK_MONOTONIC) }

func nowOf(clock int32) int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(clock, &t) // cannot fail with the clocks that each kernel has
	return t.Nano()
}

// Now is CLOCK_MONOTONIC in nanoseconds, which senders count in.
func Now() int64 { return now() }

// A thread that returns from a system call asks the Go scheduler for a processor, and may
// then wait for a lock that an ordinary thread holds and cannot run to release. Calls that
// end soon keep their processor instead; the garbage collector waits for them as long.
const soon = time.Millisecond

// sleepUntil sleeps until a time of CLOCK_MONOTONIC, or until the context ends.
func sleepUntil(ctx context.Context, at int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		here := now()
		left := time.Duration(at - here)
		if left <= 0 {
			return nil
		}
		var e syscall.Errno
		if left > 3*soon {
			until := unix.NsecToTimespec(here + int64(min(left-2*soon, sleepSlice)))
			_, _, e = unix.Syscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&until)), 0, 0, 0)
		} else {
			until := unix.NsecToTimespec(here + int64(min(left, soon)))
			_, _, e = unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&until)), 0, 0, 0)
		}
		if e != 0 && e != unix.EINTR {
			return fmt.Errorf("sleep: %w", e)
		}
	}
}
