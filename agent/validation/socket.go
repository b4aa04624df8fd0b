package validation

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"pillion.dev/wire"
)

// socket sends the probes of one address family with one firewall mark, and receives what
// answers them.
type socket struct {
	file *os.File
	six  bool
	// device limits the route of probes, not of answers.
	device int
	// sending keeps the parts of a datagram together.
	sending sync.Mutex
}

// openSocket opens a socket whose packets have the firewall mark and leave by the device.
func openSocket(six bool, mark uint32, device int) (*socket, error) {
	family, level := unix.AF_INET, unix.IPPROTO_IP
	if six {
		family, level = unix.AF_INET6, unix.IPPROTO_IPV6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return nil, fmt.Errorf("open socket: %w", err)
	}
	s := &socket{file: os.NewFile(uintptr(fd), "path probes"), six: six, device: device}
	errs, out, discover, probe := unix.IP_RECVERR, unix.IP_UNICAST_IF, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE
	if six {
		errs, out, discover, probe = unix.IPV6_RECVERR, unix.IPV6_UNICAST_IF, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE
	}
	var index [4]byte
	binary.BigEndian.PutUint32(index[:], uint32(device))
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark)),
		unix.SetsockoptInt(fd, level, errs, 1),
		unix.SetsockoptInt(fd, level, discover, probe), // no fragments, whatever the path MTU is thought to be
		unix.SetsockoptInt(fd, level, out, int(binary.NativeEndian.Uint32(index[:]))),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare socket: %w", err), s.file.Close())
	}
	return s, nil
}

// send sends a probe, with padding. As for the datagrams of applications, its checksum is
// left to the device if that computes checksums.
func (s *socket) send(to netip.Addr, message []byte) error { return s.sendParts(to, message) }

// sendComplete sends a probe whose checksum the kernel computes: it does so for datagrams
// that are made of parts, since it does not know their length when they begin.
func (s *socket) sendComplete(to netip.Addr, message []byte) error {
	half := len(message) / 2
	return s.sendParts(to, message[:half], message[half:])
}

// sendParts sends a datagram. An error of an earlier probe that the kernel reports here is
// not its own: the datagram, of which an error leaves no part behind, is sent again.
func (s *socket) sendParts(to netip.Addr, parts ...[]byte) error {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	address := s.address(to)
	s.sending.Lock()
	defer s.sending.Unlock()
	var failed error
	err = raw.Control(func(fd uintptr) {
		for range 3 {
			if failed = sendAll(int(fd), address, parts); failed == nil {
				return
			}
		}
	})
	return errors.Join(err, failed)
}

func sendAll(fd int, to unix.Sockaddr, parts [][]byte) error {
	for i, part := range parts {
		flags := unix.MSG_DONTWAIT
		if i < len(parts)-1 {
			flags |= unix.MSG_MORE
		}
		if err := unix.Sendto(fd, part, flags, to); err != nil {
			return err
		}
	}
	return nil
}

func (s *socket) address(to netip.Addr) unix.Sockaddr {
	if !s.six {
		return &unix.SockaddrInet4{Addr: to.As4(), Port: wire.ProbePort}
	}
	address := &unix.SockaddrInet6{Addr: to.As16(), Port: wire.ProbePort}
	if to.IsLinkLocalUnicast() {
		address.ZoneId = uint32(s.device)
	}
	return address
}

// receive calls answered for each answer, with its bytes, and unreachable for each destination whose host
// says that nothing listens on the port, with the probe as far as it quotes it, until the
// socket is closed.
func (s *socket) receive(answered func(netip.Addr, wire.Probe, []byte), unreachable func(netip.Addr, wire.Probe)) error {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	data, control := make([]byte, 512), make([]byte, 512)
	return raw.Read(func(fd uintptr) bool {
		for {
			from, n, refused, err := receiveError(int(fd), data, control)
			if err != nil {
				break
			}
			if refused {
				quoted, _ := wire.ParseProbe(data[:n]) // zero if it is cut
				unreachable(from, quoted)
			}
		}
		for {
			n, from, err := unix.Recvfrom(int(fd), data, unix.MSG_DONTWAIT)
			if errors.Is(err, unix.EAGAIN) {
				return false // wait for more
			}
			if err != nil {
				continue // due to an ICMP error, which the error queue has as well
			}
			if probe, err := wire.ParseProbe(data[:n]); err == nil && probe.Answer {
				answered(addressOf(from), probe, data[:n])
			}
		}
	})
}

func addressOf(from unix.Sockaddr) netip.Addr {
	switch from := from.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(from.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(from.Addr)
	}
	return netip.Addr{}
}

// extendedError is struct sock_extended_err; the address of the sender follows it.
type extendedError struct {
	errno              uint32
	origin, kind, code uint8
}

const (
	extendedErrorLength = 16
	icmpUnreachable     = 3
	icmpPort            = 3
	icmp6Unreachable    = 1
	icmp6Port           = 4
)

// receiveError takes an error from the queue, and what it quotes of the probe into data:
// refused if the destination itself sent an ICMP port unreachable about the probe to it.
func receiveError(fd int, data, control []byte) (destination netip.Addr, quoted int, refused bool, err error) {
	quoted, n, _, to, err := unix.Recvmsg(fd, data, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return netip.Addr{}, 0, false, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return netip.Addr{}, 0, false, nil
	}
	for _, m := range messages {
		if e, sender, ok := parseExtendedError(m.Data); ok && e.isPortUnreachable() {
			return addressOf(to), quoted, sender == addressOf(to), nil
		}
	}
	return netip.Addr{}, 0, false, nil
}

func (e extendedError) isPortUnreachable() bool {
	switch e.origin {
	case unix.SO_EE_ORIGIN_ICMP:
		return e.kind == icmpUnreachable && e.code == icmpPort
	case unix.SO_EE_ORIGIN_ICMP6:
		return e.kind == icmp6Unreachable && e.code == icmp6Port
	}
	return false
}

func parseExtendedError(b []byte) (e extendedError, sender netip.Addr, ok bool) {
	if len(b) < extendedErrorLength+2 {
		return e, sender, false
	}
	e = extendedError{binary.NativeEndian.Uint32(b), b[4], b[5], b[6]}
	switch from := b[extendedErrorLength:]; binary.NativeEndian.Uint16(from) {
	case unix.AF_INET:
		if len(from) >= 8 {
			sender = netip.AddrFrom4([4]byte(from[4:]))
		}
	case unix.AF_INET6:
		if len(from) >= 24 {
			sender = netip.AddrFrom16([16]byte(from[8:]))
		}
	}
	return e, sender, true
}

// Close ends receive.
func (s *socket) Close() error { return s.file.Close() }
