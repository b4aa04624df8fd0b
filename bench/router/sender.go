package main

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pillion.dev/bench/thread"
	"pillion.dev/internal/netns"
)

// batch is the maximum number of packets per system call. At a sustainable rate each packet
// has its own call; only late ones are batched.
const batch = 32

// sender is a connected UDP socket of the sending host.
type sender struct{ socket int }

// message is struct mmsghdr.
type message struct {
	header unix.Msghdr
	_      [2]uint32 // sent bytes, and padding
}

func openSender(t *testbed) (*sender, error) {
	s := &sender{socket: -1}
	err := netns.Do(t.sender, func() (err error) {
		if s.socket, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Connect(s.socket, &unix.SockaddrInet4{Addr: target.As4(), Port: udpPort})
	})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("open sender: %w", err)
	}
	return s, nil
}

func (s *sender) close() {
	if s.socket >= 0 {
		unix.Close(s.socket)
	}
}

// send sends packets of these payloads at a constant rate, or as fast as possible if that
// is 0, and returns how long it took. It busy-waits.
func (s *sender) send(lengths []uint16, rate float64) (time.Duration, error) {
	release, err := thread.Own(spread().Sender)
	if err != nil {
		return 0, err
	}
	defer release()

	payload := make([]byte, mostPayload)
	var vectors [batch]unix.Iovec
	var messages [batch]message
	for i := range messages {
		vectors[i].Base = &payload[0]
		messages[i].header.Iov, messages[i].header.Iovlen = &vectors[i], 1
	}
	begin := time.Now()
	for sent := 0; sent < len(lengths); {
		due := len(lengths)
		if rate > 0 {
			due = min(due, int(time.Since(begin).Seconds()*rate)+1)
		}
		n := min(due-sent, batch)
		if n <= 0 {
			continue
		}
		for i := range n {
			vectors[i].Len = uint64(lengths[sent+i])
		}
		done, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(s.socket), uintptr(unsafe.Pointer(&messages)), uintptr(n), 0, 0, 0)
		switch e {
		case 0:
			sent += int(done)
		case unix.EINTR, unix.ENOBUFS, unix.EPERM:
		default:
			return 0, fmt.Errorf("send packet %d: %w", sent, e)
		}
	}
	return time.Since(begin), nil
}
