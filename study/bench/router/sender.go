package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/study/bench/thread"
)

// sender has the connected socket of a flow in a host's namespace.
type sender struct {
	socket   int
	protocol int
	owed     int // bytes that the TCP socket did not take yet
	length   int // of its last message
}

func sockaddr(a netip.Addr) (int, unix.Sockaddr) {
	if a.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Addr: a.As4(), Port: port}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Addr: a.As16(), Port: port}
}

func (t *testbed) openSender(host string, protocol int) (*sender, error) {
	s := &sender{socket: -1, protocol: protocol}
	err := netns.Do(host, func() (err error) {
		family, address := sockaddr(t.target())
		kind := unix.SOCK_DGRAM
		if protocol == unix.IPPROTO_TCP {
			kind = unix.SOCK_STREAM
		}
		if s.socket, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.Connect(s.socket, address); err != nil || protocol != unix.IPPROTO_TCP {
			return err
		}
		// Each message is a packet as long as the window permits.
		if err := unix.SetsockoptInt(s.socket, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return err
		}
		return unix.SetNonblock(s.socket, true)
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
		s.socket = -1
	}
}

// write sends one message; by TCP, as much of it and of earlier messages as the socket takes.
func (s *sender) write(buffer []byte, length int) error {
	if s.protocol == unix.IPPROTO_TCP {
		s.owed, s.length = s.owed+length, length
		return s.flush(buffer)
	}
	for {
		_, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(s.socket), uintptr(unsafe.Pointer(unsafe.SliceData(buffer))), uintptr(length))
		switch e {
		case 0:
			return nil
		case unix.EINTR, unix.ENOBUFS, unix.EPERM:
		default:
			return fmt.Errorf("send packet: %w", e)
		}
	}
}

func (s *sender) flush(buffer []byte) error {
	for s.owed > 0 {
		n, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(s.socket), uintptr(unsafe.Pointer(unsafe.SliceData(buffer))), uintptr(min(s.owed, s.length)))
		switch e {
		case 0:
			s.owed -= int(n)
		case unix.EAGAIN:
			return nil
		case unix.EINTR:
		default:
			return fmt.Errorf("send message: %w", e)
		}
	}
	return nil
}

// stream sends bytes of TCP as fast as possible.
func (s *sender) stream(bytes int) error {
	if err := unix.SetNonblock(s.socket, false); err != nil {
		return err
	}
	buffer := make([]byte, 1<<16)
	for bytes > 0 {
		n, err := unix.Write(s.socket, buffer[:min(bytes, len(buffer))])
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("send stream: %w", err)
		}
		bytes -= max(n, 0)
	}
	return nil
}

// traffic is what a plan was sent as.
type traffic struct {
	took time.Duration
	// stalls of the sender, together: so much later than planned did it end.
	stalls time.Duration
}

// stall is a delay of the sender that becomes a pause: what it missed is not sent as a burst,
// which the router would have to queue.
const stall = 200 * time.Microsecond

// carryOut carries out a plan on one thread that busy-waits, so that neither flow waits for a
// scheduler. TCP may fall behind the plan, as far as its window requires.
func carryOut(all []departure, test, rival *sender) (t traffic, err error) {
	release, err := thread.Own(spread().sender)
	if err != nil {
		return t, err
	}
	defer release()
	buffer := make([]byte, mostPayload)
	begin := time.Now()
	for i := range all {
		due := time.Duration(all[i].due) + t.stalls
		now := time.Since(begin)
		for ; now < due; now = time.Since(begin) {
			if test.owed > 0 {
				if err := test.flush(buffer); err != nil {
					return t, err
				}
			}
		}
		if all[i].due > 0 && now-due > stall {
			t.stalls += now - due
		}
		flow := test
		if all[i].rival {
			flow = rival
		}
		if err := flow.write(buffer, int(all[i].length)); err != nil {
			return t, err
		}
	}
	for deadline := time.Now().Add(patience); test.owed > 0; {
		if err := test.flush(buffer); err != nil {
			return t, err
		}
		if time.Now().After(deadline) {
			return t, fmt.Errorf("send stream: %d bytes were not taken in %v", test.owed, patience)
		}
	}
	t.took = time.Since(begin)
	return t, nil
}
