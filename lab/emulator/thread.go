package emulator

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// start is the origin of the monotonic times in this process.
var start = time.Now()

// now reads the monotonic clock, ns since start, and CLOCK_REALTIME, ns.
func now() (mono, wall int64) {
	t := time.Now()
	return int64(t.Sub(start)), t.UnixNano()
}

// takeThread locks the calling goroutine to an OS thread with the shortest wake-up
// latency: with a timer slack of 1 ns and, if permitted, with real-time priority. It reports
// whether the priority was granted.
func takeThread() bool {
	runtime.LockOSThread()
	// On failure, frames are sent late; the emulator's ground truth reports the delays that result.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return unix.SchedSetAttr(0, &unix.SchedAttr{
		Size:     unix.SizeofSchedAttr,
		Policy:   unix.SCHED_FIFO,
		Priority: 10,
		Flags:    unix.SCHED_FLAG_RESET_ON_FORK,
	}, 0) == nil
}

// wait blocks until one of the file descriptors tap and stop is readable, or timeout ns have passed; a
// negative timeout is infinite. It reports whether it timed out.
func wait(tap, stop int, timeout int64) (bool, error) {
	var limit *unix.Timespec
	if timeout >= 0 {
		spec := unix.NsecToTimespec(timeout)
		limit = &spec
	}
	fds := []unix.PollFd{{Fd: int32(tap), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
	n, err := unix.Ppoll(fds, limit, nil)
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("wait for frames: %w", err)
	}
	if fds[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0 {
		return false, errors.New("wait for frames: tap is gone")
	}
	return n == 0, nil
}
