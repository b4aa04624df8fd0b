package main

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/study/bench/result"
	"pillion.dev/study/bench/thread"
)

// burst packets are sent between two readings of the clock, then read from the receiving
// socket outside the measured time: each takes its whole way, into a socket with free space.
const (
	burst        = 128
	socketBuffer = 4 << 20
	shortPayload = 22 // 64 bytes on Ethernet, the checksum at its end included in neither
)

// passage measures the whole way of short packets on one thread and processor.
type passage struct {
	out      *sender
	in       int
	payload  [shortPayload]byte
	received [2 * shortPayload]byte
}

func (t *testbed) openPassage() (*passage, error) {
	p := &passage{in: -1}
	var err error
	if p.out, err = t.openSender(t.sender, unix.IPPROTO_UDP); err != nil {
		return nil, err
	}
	err = netns.Do(t.receiver, func() (err error) {
		family, address := sockaddr(t.target())
		if p.in, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(p.in, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer); err != nil {
			return err
		}
		return unix.Bind(p.in, address)
	})
	if err != nil {
		p.close()
		return nil, fmt.Errorf("open passage: %w", err)
	}
	return p, nil
}

func (p *passage) close() {
	p.out.close()
	if p.in >= 0 {
		unix.Close(p.in)
	}
}

var errMissing = errors.New("packets are missing")

// rate sends a number of packets and returns packets per second of CPU time: the median
// over bursts, so that other load on the machine hardly affects it.
func (p *passage) rate(packets int) (float64, error) {
	release, err := thread.Own(spread().sender)
	if err != nil {
		return 0, err
	}
	defer release()
	costs := make([]float64, 0, packets/burst+1)
	arrived := 0
	for range packets / burst {
		begin := thread.CPUTime()
		for range burst {
			_, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(p.out.socket), uintptr(unsafe.Pointer(&p.payload)), shortPayload)
			if e != 0 {
				return 0, fmt.Errorf("send packet: %w", e)
			}
		}
		costs = append(costs, float64(thread.CPUTime()-begin)/burst)
		arrived += p.drain()
	}
	arrived += p.late(packets/burst*burst - arrived)
	if missing := packets/burst*burst - arrived; missing > packets/1000 {
		return 0, fmt.Errorf("pass packets: %d: %w", missing, errMissing)
	}
	return 1e9 / result.Median(costs), nil
}

// drain reads the arrived packets.
func (p *passage) drain() (n int) {
	for {
		_, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(p.in), uintptr(unsafe.Pointer(&p.received)),
			uintptr(len(p.received)), unix.MSG_DONTWAIT, 0, 0)
		if e != 0 {
			return n
		}
		n++
	}
}

// late reads packets that a softirq has deferred.
func (p *passage) late(missing int) (n int) {
	for n < missing {
		ready := []unix.PollFd{{Fd: int32(p.in), Events: unix.POLLIN}}
		if k, _ := unix.Poll(ready, 200); k == 0 {
			return n
		}
		n += p.drain()
	}
	return n
}
