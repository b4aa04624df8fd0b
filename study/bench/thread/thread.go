// Package thread gives a benchmark that sends from one thread a thread that little disturbs.
package thread

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Own locks the goroutine to its thread, pins that to a core, and stops garbage collection
// until release is called.
func Own(core int) (release func(), err error) {
	unpin, err := Pin(core)
	if err != nil {
		return nil, err
	}
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	return func() {
		debug.SetGCPercent(percent)
		unpin()
	}, nil
}

// Pin locks the goroutine to its thread and pins that to a core until release is called. The
// thread has to live on: a process that was started from it may be tied to its life.
func Pin(core int) (release func(), err error) {
	runtime.LockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("read own cores: %w", err)
	}
	one.Set(core)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("pin thread to core %d: %w", core, err)
	}
	return func() {
		_ = unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	}, nil
}

// CPUTime returns the CPU time of the calling thread, ns.
func CPUTime() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now) // cannot fail for the calling thread
	return now.Nano()
}
