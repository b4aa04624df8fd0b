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

// errNoAnswer says that echoes were sent and none came back.
var errNoAnswer = errors.New("no answer")

const (
	echoTries = 4
	echoWait  = 600 * time.Millisecond
)

// paddedOptions is an IPv6 destination options header (RFC 8200, 4.6) that says
// nothing: the kernel fills in the next header; its length is 8 bytes, all of it
// a PadN of 4. A path that drops by the header's mere presence drops it too; one
// that drops by the option's type may still pass it.
var paddedOptions = []byte{0, 0, 1, 4, 0, 0, 0, 0}

// echo sends ICMP echoes until one is answered, and returns its round trip as
// this process saw it. With options they have an IPv6 destination options header.
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
	if failed != nil && !errors.Is(failed, os.ErrDeadlineExceeded) && !unreached(failed) {
		return 0, failed
	}
	return 0, errNoAnswer
}

// unreached is how the kernel says that somebody, or nobody, told it so.
func unreached(err error) bool {
	for _, reason := range []error{unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ECONNREFUSED, unix.EACCES, unix.EPROTO} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// openEcho opens a raw socket that hears the address alone, or the ping socket
// that ordinary users may have.
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

// connected is a raw socket to one address.
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

// awaitEcho waits for the answer to one of our echoes and returns which.
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

// readEcho reads an ICMP message, and reports whether it answers an echo with the
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
