package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pillion.dev/study/bench/result"
	"pillion.dev/study/bench/thread"
)

const (
	streamWrite = 64 << 10
	// streamSlice is what arrives between two readings of the clock.
	streamSlice = 4 << 20
	// stallLimit is how long nothing may arrive.
	stallLimit = 2 * time.Second
)

// streamer sends one bulk stream of TCP. One thread writes and reads: two that wait for
// each other vary ten times as much.
type streamer struct {
	*connection
	buffer    []byte
	softirq   string // schedstat of the kernel thread for the core's soft interrupts; empty if not visible
	delivered int
}

// sendStream sends for the duration. The rate by CPU time is of the median slice, and
// includes the kernel thread to which the core's soft interrupts are left under load.
func sendStream(ctx context.Context, t *testbed, v6 bool, core int, duration time.Duration) (sample, error) {
	c, err := connect(t, v6)
	if err != nil {
		return sample{}, err
	}
	defer c.close()
	s := streamer{connection: c, buffer: make([]byte, streamWrite), softirq: softirqThread(core)}
	for _, descriptor := range []int{c.client, c.server} {
		if err := unix.SetNonblock(descriptor, true); err != nil {
			return sample{}, fmt.Errorf("open TCP connection: %w", err)
		}
	}
	release, err := thread.Own(core)
	if err != nil {
		return sample{}, err
	}
	defer release()

	for range 4 { // the window opens
		if _, err := s.slice(ctx); err != nil {
			return sample{}, err
		}
	}
	s.delivered = 0
	var cpu []float64
	begin := time.Now()
	for time.Since(begin) < duration {
		ns, err := s.slice(ctx)
		if err != nil {
			return sample{}, err
		}
		cpu = append(cpu, ns)
	}
	n := s.delivered
	return sample{n, n, 8e9 / result.Median(cpu), 8 * float64(n) / time.Since(begin).Seconds()}, nil
}

// slice sends a part of the stream and returns the CPU time of a byte, ns.
func (s *streamer) slice(ctx context.Context) (float64, error) {
	softirq, cpu := s.softirqTime(), thread.CPUTime()
	moved := 0
	for last := time.Now(); moved < streamSlice; {
		wrote, err := s.step(unix.SYS_WRITE, s.client)
		if err != nil {
			return 0, fmt.Errorf("send stream: %w", err)
		}
		read := 0
		for n := 1; n > 0; read += n {
			if n, err = s.step(unix.SYS_READ, s.server); err != nil {
				return 0, fmt.Errorf("receive stream: %w", err)
			}
		}
		moved += read
		if wrote+read > 0 {
			last = time.Now()
			continue
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if time.Since(last) > stallLimit {
			return 0, fmt.Errorf("receive stream: nothing arrived for %v", stallLimit)
		}
		poll := []unix.PollFd{{Fd: int32(s.server), Events: unix.POLLIN}}
		_, _ = unix.Poll(poll, 1) // a failed poll only ends the wait
	}
	s.delivered += moved
	took := thread.CPUTime() - cpu + s.softirqTime() - softirq
	return float64(took) / float64(moved), ctx.Err()
}

// step reads or writes once; 0 means that it would have to wait.
func (s *streamer) step(call uintptr, descriptor int) (int, error) {
	n, _, e := unix.RawSyscall(call, uintptr(descriptor), uintptr(unsafe.Pointer(&s.buffer[0])), uintptr(len(s.buffer)))
	switch {
	case e == unix.EAGAIN || e == unix.EINTR:
		return 0, nil
	case e != 0:
		return 0, e
	case n == 0:
		return 0, errors.New("the connection ended")
	}
	return int(n), nil
}

// softirqThread finds the kernel thread that takes over soft interrupts of a core.
func softirqThread(core int) string {
	names, _ := filepath.Glob("/proc/[0-9]*/comm") // the pattern is correct
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err == nil && strings.TrimSpace(string(text)) == "ksoftirqd/"+strconv.Itoa(core) {
			return filepath.Join(filepath.Dir(name), "schedstat")
		}
	}
	return ""
}

// softirqTime is the CPU time of that thread so far, ns; 0 if it is not visible.
func (s *streamer) softirqTime() int64 {
	text, _ := os.ReadFile(s.softirq)
	first, _, _ := strings.Cut(string(text), " ")
	ns, _ := strconv.ParseInt(first, 10, 64)
	return ns
}
