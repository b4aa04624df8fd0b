package lab_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/test/hang"
)

// arrival is one received packet: the sender's content, and the time of arrival.
type arrival struct {
	sequence       uint64
	sent, received int64 // CLOCK_REALTIME ns
}

// stream is a UDP flow between two hosts with a receiver that is independent of the
// emulator.
type stream struct {
	t        testing.TB
	in, out  *net.UDPConn
	next     uint64
	arrivals []arrival
}

// open prepares a flow from a free port to the given one, or to a free one if that is 0.
func (b *bed) open(from, to string, destination netip.AddrPort) *stream {
	b.t.Helper()
	s := &stream{t: b.t}
	b.do(to, func() (err error) {
		s.in, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(destination))
		return err
	})
	b.t.Cleanup(func() { s.in.Close() })
	raw, err := s.in.SyscallConn()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 256<<20)
	}); err != nil {
		b.t.Fatalf("set receive buffer: %v", err)
	}
	b.do(from, func() (err error) {
		s.out, err = net.DialUDP("udp", nil, s.in.LocalAddr().(*net.UDPAddr))
		return err
	})
	b.t.Cleanup(func() { s.out.Close() })
	return s
}

// send sends count packets with sequence numbers, in bursts of 32 at about rate
// packets per second.
func (s *stream) send(count, rate int) {
	s.t.Helper()
	const burst = 32
	pace := time.NewTicker(time.Second * burst / time.Duration(rate))
	defer pace.Stop()
	for n := range count {
		if n%burst == 0 {
			<-pace.C
		}
		s.sendNext()
	}
}

// sendNext sends the next packet at once.
func (s *stream) sendNext() {
	s.t.Helper()
	payload := make([]byte, 56)
	binary.BigEndian.PutUint64(payload, s.next)
	binary.BigEndian.PutUint64(payload[8:], uint64(time.Now().UnixNano()))
	if _, err := s.out.Write(payload); err != nil {
		s.t.Fatalf("send packet %d: %v", s.next, err)
	}
	s.next++
}

// receive reads count packets and then makes sure that no other follows.
func (s *stream) receive(count uint64) {
	s.t.Helper()
	buffer := make([]byte, 2048)
	for uint64(len(s.arrivals)) < count {
		_ = s.in.SetReadDeadline(time.Now().Add(hang.Limit))
		if err := s.read(buffer); err != nil {
			s.t.Fatalf("receive packet %d of %d: %v", len(s.arrivals), count, err)
		}
	}
	_ = s.in.SetReadDeadline(time.Now().Add(time.Millisecond))
	if err := s.read(buffer); err == nil {
		s.t.Errorf("received more than %d packets", count)
	}
}

func (s *stream) read(buffer []byte) error {
	n, err := s.in.Read(buffer)
	if err != nil {
		return err
	}
	if n < 16 {
		return fmt.Errorf("short packet: %d bytes", n)
	}
	s.arrivals = append(s.arrivals, arrival{
		sequence: binary.BigEndian.Uint64(buffer),
		sent:     int64(binary.BigEndian.Uint64(buffer[8:])),
		received: time.Now().UnixNano(),
	})
	return nil
}

// seen has the receiver's own counts.
type seen struct{ delivered, duplicated, reordered uint64 }

// count applies the definitions of RFC 5560 and RFC 4737 to the arrivals.
func (s *stream) count() seen {
	var result seen
	known := map[uint64]bool{}
	var nextExpected uint64
	for _, a := range s.arrivals {
		switch {
		case known[a.sequence]:
			result.duplicated++
			continue
		case a.sequence < nextExpected:
			result.reordered++
		default:
			nextExpected = a.sequence + 1
		}
		known[a.sequence] = true
		result.delivered++
	}
	return result
}

// localPort returns the sender's port.
func (s *stream) localPort() uint16 {
	return s.out.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}
