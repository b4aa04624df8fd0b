package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pillion.dev/bench/estimate"
	"pillion.dev/bench/thread"
	"pillion.dev/internal/netns"
)

const (
	requestBytes = 100 // of a request, and of its reply
	requestPort  = 7   // echo
	requestBurst = 64  // transactions between two looks at the clock
)

// requestResult is what one run of requests and replies took.
type requestResult struct {
	Transactions int `json:"transactions"`
	// CPUNs is the thread's CPU time a transaction, both ends included: the median over bursts.
	CPUNs float64 `json:"cpu_ns"`
	// ClockNs is the elapsed time of all bursts over all transactions.
	ClockNs float64 `json:"clock_ns"`
}

// requester holds both ends of a TCP connection; they live on one thread, which carries
// each segment all the way into the other end's socket.
type requester struct {
	client, server int
	buffer         [requestBytes]byte
}

// sendRequests exchanges requests and replies, one at a time, for the duration.
func sendRequests(ctx context.Context, t *testbed, v6 bool, core int, duration time.Duration) (requestResult, error) {
	r, err := openRequester(t, v6)
	if err != nil {
		return requestResult{}, err
	}
	defer r.close()

	release, err := thread.Own(core)
	if err != nil {
		return requestResult{}, err
	}
	defer release()

	for range warmBursts {
		if err := r.burst(); err != nil {
			return requestResult{}, err
		}
	}
	var result requestResult
	var cpu []float64
	begin := time.Now()
	for time.Since(begin) < duration && ctx.Err() == nil {
		before := thread.CPUTime()
		if err := r.burst(); err != nil {
			return result, err
		}
		cpu = append(cpu, float64(thread.CPUTime()-before)/requestBurst)
		result.Transactions += requestBurst
	}
	result.CPUNs = estimate.Median(cpu)
	result.ClockNs = float64(time.Since(begin).Nanoseconds()) / float64(result.Transactions)
	return result, ctx.Err()
}

func openRequester(t *testbed, v6 bool) (*requester, error) {
	r := &requester{client: -1, server: -1}
	to := t.destination.address4
	if v6 {
		to = t.destination.address6
	}
	if err := r.open(t, to); err != nil {
		r.close()
		return nil, fmt.Errorf("open TCP connection to %s: %w", to, err)
	}
	return r, nil
}

func (r *requester) open(t *testbed, to netip.Addr) error {
	listener := -1
	err := netns.Do(t.destination.namespace, func() (err error) {
		if listener, err = tcpSocket(to); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
		if err := unix.Bind(listener, socketAddress(to, requestPort)); err != nil {
			return err
		}
		return unix.Listen(listener, 1)
	})
	if listener >= 0 {
		defer unix.Close(listener)
	}
	if err != nil {
		return err
	}
	err = netns.Do(t.source.namespace, func() (err error) {
		if r.client, err = tcpSocket(to); err != nil {
			return err
		}
		return unix.Connect(r.client, socketAddress(to, requestPort))
	})
	if err != nil {
		return err
	}
	r.server, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.SetsockoptInt(r.server, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

func tcpSocket(family netip.Addr) (int, error) {
	descriptor, err := openSocket(family, unix.SOCK_STREAM)
	if err != nil {
		return -1, err
	}
	return descriptor, unix.SetsockoptInt(descriptor, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

func (r *requester) close() {
	for _, descriptor := range []int{r.client, r.server} {
		if descriptor >= 0 {
			unix.Close(descriptor)
		}
	}
}

// burst makes requests and waits for the reply to each.
func (r *requester) burst() error {
	for range requestBurst {
		for _, step := range []struct {
			call       uintptr
			descriptor int
		}{{unix.SYS_WRITE, r.client}, {unix.SYS_READ, r.server}, {unix.SYS_WRITE, r.server}, {unix.SYS_READ, r.client}} {
			n, _, e := unix.Syscall(step.call, uintptr(step.descriptor), uintptr(unsafe.Pointer(&r.buffer)), requestBytes)
			if e != 0 {
				return fmt.Errorf("exchange %d bytes: %w", requestBytes, e)
			}
			if n != requestBytes {
				return fmt.Errorf("exchange %d bytes: only %d at once", requestBytes, n)
			}
		}
	}
	return nil
}
