package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// errNoReply means that echo requests were sent and none was answered.
var errNoReply = errors.New("no reply")

const (
	echoTries = 4
	echoWait  = 600 * time.Millisecond
)

// paddedOptions is an IPv6 destination options header (RFC 8200, 4.6) of 8 bytes that
// holds only a PadN; the kernel fills in the next header. A path that drops any such
// header drops it too; one that drops by option type may still pass it.
var paddedOptions = []byte{0, 0, 1, 4, 0, 0, 0, 0}

// echo sends ICMP echo requests until one is answered, and returns the round-trip time
// as this process saw it. With options they carry an IPv6 destination options header.
func echo(ctx context.Context, address netip.Addr, options bool) (time.Duration, error) {
	conn, to, err := openEcho(ctx, address, options)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	token := []byte(rand.Text())
	var sent [echoTries]time.Time
	var failed error
	for try := range echoTries {
		sent[try] = time.Now()
		if _, err := conn.WriteTo(echoMessage(address, try, token), to); err != nil {
			failed = fmt.Errorf("send echo: %w", err)
		}
		if err := conn.SetReadDeadline(sent[try].Add(echoWait)); err != nil {
			return 0, err
		}
		if ctx.Err() != nil {
			break
		}
		if sequence, err := awaitEcho(conn, address, token); err == nil {
			return max(time.Since(sent[sequence]), 1), nil
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			failed = err
		}
	}
	if failed != nil && !errors.Is(failed, os.ErrDeadlineExceeded) && !unreachable(failed) {
		return 0, failed
	}
	return 0, errNoReply
}

// unreachable reports whether the error stands for an ICMP error, or a missing one.
func unreachable(err error) bool {
	for _, reason := range []error{unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ECONNREFUSED, unix.EACCES, unix.EPROTO} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// openEcho opens a raw socket connected to the address, or the ping socket that
// unprivileged users may open.
func openEcho(ctx context.Context, address netip.Addr, options bool) (net.PacketConn, net.Addr, error) {
	network, ping, local := "ip4:1", "udp4", "0.0.0.0"
	if address.Is6() {
		network, ping, local = "ip6:58", "udp6", "::"
	}
	dialer := net.Dialer{}
	if options {
		dialer.Control = func(_, _ string, raw syscall.RawConn) error {
			var set error
			err := raw.Control(func(fd uintptr) {
				set = unix.SetsockoptString(int(fd), unix.IPPROTO_IPV6, unix.IPV6_DSTOPTS, string(paddedOptions))
			})
			return errors.Join(err, set)
		}
	}
	conn, err := dialer.DialContext(ctx, network, address.String())
	if err == nil {
		return &connected{conn.(*net.IPConn)}, nil, nil
	}
	if options || !errors.Is(err, unix.EPERM) {
		return nil, nil, fmt.Errorf("open raw socket: %w", err)
	}
	packets, err := icmp.ListenPacket(ping, local)
	if err != nil {
		return nil, nil, fmt.Errorf("open ping socket: %w", err)
	}
	return packets, &net.UDPAddr{IP: address.AsSlice(), Zone: address.Zone()}, nil
}

// connected is a raw socket connected to one address.
type connected struct{ *net.IPConn }

func (c *connected) WriteTo(packet []byte, _ net.Addr) (int, error) { return c.Write(packet) }

func echoMessage(address netip.Addr, sequence int, token []byte) []byte {
	m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: os.Getpid() & 0xffff, Seq: sequence, Data: token}}
	if address.Is6() {
		m.Type = ipv6.ICMPTypeEchoRequest // the kernel writes the checksum
	}
	text, err := m.Marshal(nil)
	if err != nil {
		return nil
	}
	return text
}

// awaitEcho waits for the reply to one of our requests and returns its sequence number.
func awaitEcho(conn net.PacketConn, address netip.Addr, token []byte) (int, error) {
	buffer := make([]byte, 1500)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if err != nil {
			return 0, fmt.Errorf("receive echo: %w", err)
		}
		if sequence, ok := readEcho(buffer[:n], address.Is6(), token); ok {
			return sequence, nil
		}
	}
}

// readEcho parses an ICMP message and reports whether it is an echo reply with the
// token.
func readEcho(message []byte, six bool, token []byte) (sequence int, ok bool) {
	protocol, want := unix.IPPROTO_ICMP, icmp.Type(ipv4.ICMPTypeEchoReply)
	if six {
		protocol, want = unix.IPPROTO_ICMPV6, ipv6.ICMPTypeEchoReply
	}
	m, err := icmp.ParseMessage(protocol, message)
	if err != nil || m.Type != want {
		return 0, false
	}
	body, isEcho := m.Body.(*icmp.Echo)
	if !isEcho || !bytes.Equal(body.Data, token) || body.Seq >= echoTries {
		return 0, false
	}
	return body.Seq, true
}
