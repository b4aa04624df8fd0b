package trace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// socket sends probes and receives ICMP.
type socket struct {
	flow *flow
	out  int // raw, whole packets
	to   unix.Sockaddr
	in   *net.IPConn
	// closing protects out from a close during a send.
	closing sync.Mutex
	closed  bool
	buffer  [2048]byte
	control [128]byte
}

func open(ctx context.Context, options *Options) (*socket, error) {
	source, err := sourceOf(ctx, options)
	if err != nil {
		return nil, err
	}
	s := &socket{flow: newFlow(source, options.Destination, options.Protocol, options.Flow)}
	if s.in, err = listen(ctx, source); err != nil {
		return nil, permission("listen for ICMP", err)
	}
	if s.out, err = openRaw(source, options.Mark); err != nil {
		return nil, errors.Join(permission("open raw socket", err), s.in.Close())
	}
	s.to, err = socketAddress(options.Destination)
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func permission(what string, err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%s: %w: %w", what, ErrPermission, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// sourceOf looks up the source address in the routing table; nothing is sent.
func sourceOf(ctx context.Context, options *Options) (netip.Addr, error) {
	dialer := net.Dialer{}
	if options.Source.IsValid() {
		dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(options.Source, 0))
	}
	conn, err := dialer.DialContext(ctx, "udp", netip.AddrPortFrom(options.Destination, portDestination).String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find route: %w", err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// listen opens a socket for the relevant ICMP messages to source.
func listen(ctx context.Context, source netip.Addr) (*net.IPConn, error) {
	network := "ip4:1"
	if source.Is6() {
		network = "ip6:58"
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) {
			set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
		})
		return errors.Join(err, set)
	}}
	packets, err := config.ListenPacket(ctx, network, source.String())
	if err != nil {
		return nil, err
	}
	if source.Is6() {
		filter := ipv6.ICMPFilter{}
		filter.SetAll(true)
		filter.Accept(ipv6.ICMPTypeEchoReply)
		filter.Accept(ipv6.ICMPTypeTimeExceeded)
		filter.Accept(ipv6.ICMPTypeDestinationUnreachable)
		err = ipv6.NewPacketConn(packets).SetICMPFilter(&filter)
	} else {
		filter := ipv4.ICMPFilter{}
		filter.SetAll(true)
		filter.Accept(ipv4.ICMPTypeEchoReply)
		filter.Accept(ipv4.ICMPTypeTimeExceeded)
		filter.Accept(ipv4.ICMPTypeDestinationUnreachable)
		err = ipv4.NewPacketConn(packets).SetICMPFilter(&filter)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set ICMP filter: %w", err), packets.Close())
	}
	return packets.(*net.IPConn), nil
}

// openRaw opens a socket for packets with headers. It is bound, for source-based
// routing.
func openRaw(source netip.Addr, mark uint32) (int, error) {
	family := unix.AF_INET
	if source.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	if err != nil {
		return -1, err
	}
	address, err := socketAddress(source)
	if err == nil {
		err = unix.Bind(fd, address)
	}
	if err == nil && mark != 0 {
		if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark)); err != nil {
			err = fmt.Errorf("set mark %#x: %w", mark, err)
		}
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func socketAddress(address netip.Addr) (unix.Sockaddr, error) {
	if address.Is4() {
		return &unix.SockaddrInet4{Addr: address.As4()}, nil
	}
	six := &unix.SockaddrInet6{Addr: address.As16()}
	if zone := address.Zone(); zone != "" {
		device, err := net.InterfaceByName(zone)
		if err != nil {
			return nil, fmt.Errorf("find zone of %s: %w", address, err)
		}
		six.ZoneId = uint32(device.Index)
	}
	return six, nil
}

// close may be called repeatedly and concurrently.
func (s *socket) close() {
	s.closing.Lock()
	defer s.closing.Unlock()
	if !s.closed {
		s.closed = true
		_ = s.in.Close()
		_ = unix.Close(s.out)
	}
}

// send sends a probe and returns the time just before. A probe dropped by this host's
// full queue counts as sent, like any other loss.
func (s *socket) send(ttl, number int) (time.Time, error) {
	packet := s.flow.packet(ttl, number)
	s.closing.Lock()
	defer s.closing.Unlock()
	now := time.Now()
	if s.closed {
		return now, net.ErrClosed
	}
	err := unix.Sendto(s.out, packet, 0, s.to)
	if err != nil && err != unix.EAGAIN && err != unix.ENOBUFS {
		return now, fmt.Errorf("send probe %d with ttl %d: %w", number, ttl, err)
	}
	return now, nil
}

// receive waits for one message until the deadline; most are not about these probes.
func (s *socket) receive(deadline time.Time) ([]answer, error) {
	if err := s.in.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	n, controls, _, peer, err := s.in.ReadMsgIP(s.buffer[:], s.control[:])
	if err != nil {
		return nil, fmt.Errorf("receive ICMP: %w", err)
	}
	now := time.Now()
	message, from := s.buffer[:n], netip.Addr{}
	if s.flow.source.Is4() {
		var ok bool
		if from, message, ok = strip(message); !ok {
			return nil, nil
		}
	} else {
		from, _ = netip.AddrFromSlice(peer.IP)
	}
	a, ok := s.flow.read(from, message)
	if !ok {
		return nil, nil
	}
	a.read, a.stamp = now, stampIn(s.control[:controls])
	return []answer{a}, nil
}

// stampIn is the kernel's receive timestamp; zero if missing.
func stampIn(control []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Time{}
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			seconds := int64(binary.NativeEndian.Uint64(m.Data))
			return time.Unix(seconds, int64(binary.NativeEndian.Uint64(m.Data[8:])))
		}
	}
	return time.Time{}
}
