package main

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/study/bench/result"
	"pillion.dev/study/bench/thread"
)

const (
	udpPort = 9 // discard
	// burst packets are sent between two readings of the clock, then read from
	// the receiving socket, outside the measured time. So every packet takes the
	// whole path into a socket with free space, is verified to arrive unchanged,
	// and no second thread's wake-ups disturb the first. A full socket that drops
	// everything was tried: the same cost within noise, but nothing is verified.
	burst        = 128
	warmBursts   = 16
	socketBuffer = 4 << 20
)

// udpResult is the sender's result of one run.
type udpResult struct {
	Packets   int
	Delivered int
	// CPUNs is the sending thread's CPU time per packet, the median over bursts.
	// It excludes work on other cores and rare work, and is hardly affected by other
	// processes on the core.
	CPUNs float64
	// ClockNs is the elapsed time of all bursts over all packets: it includes everything,
	// other processes too.
	ClockNs float64
}

// sender holds the two sockets of a UDP run; both ends live on one thread.
type sender struct {
	out, in  int
	payload  []byte
	received []byte
	cpu      []float64 // CPU ns per packet, one value per burst
	elapsed  time.Duration
	result   udpResult
}

// sendUDP sends datagrams of the given payload from source to destination for
// the duration, as fast as one thread on one core can.
func sendUDP(ctx context.Context, t *testbed, v6 bool, payload int, core int, duration time.Duration) (udpResult, error) {
	s, err := openSender(t, v6, payload)
	if err != nil {
		return udpResult{}, err
	}
	defer s.close()

	release, err := thread.Own(core)
	if err != nil {
		return udpResult{}, err
	}
	defer release()

	for range warmBursts {
		if err := s.burst(); err != nil {
			return udpResult{}, err
		}
	}
	s.awaitLate() // else they count as delivered below
	s.cpu, s.elapsed, s.result = s.cpu[:0], 0, udpResult{}
	for begin := time.Now(); len(s.cpu) == 0 || time.Since(begin) < duration && ctx.Err() == nil; { // one at least
		if err := s.burst(); err != nil {
			return udpResult{}, err
		}
	}
	s.awaitLate()
	s.result.CPUNs = result.Median(s.cpu)
	s.result.ClockNs = float64(s.elapsed.Nanoseconds()) / float64(s.result.Packets)
	return s.result, ctx.Err()
}

func openSender(t *testbed, v6 bool, payload int) (*sender, error) {
	s := &sender{out: -1, in: -1, payload: bytes.Repeat([]byte("pillion "), payload/8+1)[:payload],
		received: make([]byte, payload+1)}
	from, to := t.source.address4, t.destination.address4
	if v6 {
		from, to = t.source.address6, t.destination.address6
	}
	err := netns.Do(t.destination.namespace, func() (err error) {
		s.in, err = udpSocket(to, udpPort)
		if err != nil {
			return err
		}
		return unix.SetsockoptInt(s.in, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer)
	})
	if err == nil {
		err = netns.Do(t.source.namespace, func() (err error) {
			s.out, err = udpSocket(from, 0)
			if err != nil {
				return err
			}
			return unix.Connect(s.out, socketAddress(to, udpPort))
		})
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("open UDP sockets to %s: %w", to, err)
	}
	return s, nil
}

func (s *sender) close() {
	for _, descriptor := range []int{s.out, s.in} {
		if descriptor >= 0 {
			unix.Close(descriptor)
		}
	}
}

// burst sends a burst against the clock, then empties the receiving socket.
func (s *sender) burst() error {
	begin := time.Now()
	cpu := thread.CPUTime()
	for range burst {
		_, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(s.out),
			uintptr(unsafe.Pointer(unsafe.SliceData(s.payload))), uintptr(len(s.payload)))
		if e != 0 {
			return fmt.Errorf("send %d bytes: %w", len(s.payload), e)
		}
	}
	s.cpu = append(s.cpu, float64(thread.CPUTime()-cpu)/burst)
	s.elapsed += time.Since(begin)
	s.result.Packets += burst
	s.drain()
	return nil
}

// drain reads arrived datagrams; one counts as delivered only if it equals the sent one,
// byte for byte.
func (s *sender) drain() {
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.in),
			uintptr(unsafe.Pointer(unsafe.SliceData(s.received))), uintptr(len(s.received)), unix.MSG_DONTWAIT, 0, 0)
		if e != 0 {
			return
		}
		if bytes.Equal(s.received[:n], s.payload) {
			s.result.Delivered++
		}
	}
}

// awaitLate waits briefly for packets that a busy soft interrupt still holds.
func (s *sender) awaitLate() {
	for end := time.Now().Add(10 * time.Second); s.result.Delivered < s.result.Packets; s.drain() {
		if time.Now().After(end) {
			return
		}
		poll := []unix.PollFd{{Fd: int32(s.in), Events: unix.POLLIN}}
		_, _ = unix.Poll(poll, 10) // a failed poll only ends the wait
	}
}

func udpSocket(local netip.Addr, port int) (int, error) {
	descriptor, err := openSocket(local, unix.SOCK_DGRAM)
	if err != nil {
		return -1, err
	}
	return descriptor, unix.Bind(descriptor, socketAddress(local, port))
}

// openSocket opens a socket of the family of an address.
func openSocket(address netip.Addr, kind int) (int, error) {
	family := unix.AF_INET
	if address.Is6() {
		family = unix.AF_INET6
	}
	return unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
}

func socketAddress(address netip.Addr, port int) unix.Sockaddr {
	if address.Is6() {
		return &unix.SockaddrInet6{Addr: address.As16(), Port: port}
	}
	return &unix.SockaddrInet4{Addr: address.As4(), Port: port}
}
