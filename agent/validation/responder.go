package validation

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/probe/source"
	"pillion.dev/wire"
)

// A Responder answers path probes to this host. It sends a question back as an answer of
// the same size at most, with what a destination program noted in it, and seals it if the
// question is sealed for it. Several may run on one host: the kernel chooses one for each
// source.
type Responder struct {
	conns map[string]*net.UDPConn // by network
	keys  *Keyring
	done  sync.WaitGroup
	log   *slog.Logger
	// taken are the sockets on the port when it was last in use, and holders names who has them open.
	taken   []portSocket
	holders string
}

const (
	// answersPerSecond bounds what a responder sends in each family, to sealed questions and to others, and so what forged
	// ones can cause.
	answersPerSecond = 2000
	// answersPerSource bounds it for a host: the tests of a source with several encodings ask for up to 350 in a second.
	answersPerSource = 500
)

// allowance is what may be answered.
type allowance struct {
	sealed, others budget
	sources        [1024]budget // by a hash, since anybody can have many addresses
	seed           maphash.Seed
}

// asker is a host, as far as its address tells, and whether the seal of its question is valid.
type asker struct {
	prefix netip.Prefix
	sealed bool
}

// take reports whether a question may be answered. What others ask does not count against a sealed one.
func (a *allowance) take(from netip.Addr, sealed bool, now time.Time) bool {
	prefix, _ := from.Prefix(min(64, from.BitLen()))
	if !a.sources[maphash.Comparable(a.seed, asker{prefix, sealed})%uint64(len(a.sources))].take(now, answersPerSource) {
		return false
	}
	if sealed {
		return a.sealed.take(now, answersPerSecond)
	}
	return a.others.take(now, answersPerSecond)
}

// NewResponder returns a Responder that does not listen yet. Without keys, which may be nil, it seals
// nothing.
func NewResponder(keys *Keyring, log *slog.Logger) *Responder {
	return &Responder{conns: map[string]*net.UDPConn{}, keys: keys, log: log}
}

// Listen begins to answer probes of each family that is not answered yet, in the network namespace of
// the calling thread. The error is for the user: which are not answered, and who holds the port. A host
// may lack a family.
func (r *Responder) Listen() error {
	var failed []error
	var families []string
	for _, network := range []string{"udp4", "udp6"} {
		if r.conns[network] != nil {
			continue
		}
		conn, err := listen(network)
		switch {
		case err == nil:
			r.conns[network] = conn
			r.done.Go(func() { r.answer(conn) })
		case !errors.Is(err, unix.EAFNOSUPPORT):
			failed, families = append(failed, err), append(families, "IPv"+network[3:])
		}
	}
	if len(failed) == 0 {
		return nil
	}
	err := failed[0]
	if sockets := portSockets(); !slices.Equal(sockets, r.taken) {
		r.taken, r.holders = sockets, holders(sockets) // which looks at all processes
	}
	if errors.Is(err, unix.EADDRINUSE) && r.holders != "" {
		err = errors.New(r.holders)
	}
	return fmt.Errorf("path probes over %s are not answered: %w", strings.Join(families, " and "), err)
}

func listen(network string) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) {
			set = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, source.ProbeMark),
			)
			if network == "udp4" {
				set = errors.Join(set, unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1))
			} else {
				set = errors.Join(set, unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1))
			}
		})
		return errors.Join(err, set)
	}}
	conn, err := config.ListenPacket(context.Background(), network, fmt.Sprintf(":%d", wire.ProbePort))
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// answer replies from the address that was asked.
func (r *Responder) answer(conn *net.UDPConn) {
	data, control := make([]byte, 512), make([]byte, 256)
	allowed := allowance{seed: maphash.MakeSeed()}
	for {
		n, oobn, _, from, err := conn.ReadMsgUDPAddrPort(data, control)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // of one datagram
		}
		probe, err := wire.ParseProbe(data[:n])
		if err != nil || probe.Answer {
			continue
		}
		probe.Answer = true
		answer, sealed := r.keys.seal(probe.Append(nil), data[:n], askedAt(control[:oobn]))
		if !allowed.take(from.Addr(), sealed, time.Now()) {
			continue
		}
		if _, _, err := conn.WriteMsgUDPAddrPort(answer, replyFrom(control[:oobn]), from); err != nil {
			r.log.Debug("answer path probe", "to", from, "error", err)
		}
	}
}

// askedAt returns the address to which the datagram was sent.
func askedAt(control []byte) netip.Addr {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return netip.Addr{}
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			return netip.AddrFrom4([4]byte(m.Data[8:12]))
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			return netip.AddrFrom16([16]byte(m.Data[:16]))
		}
	}
	return netip.Addr{}
}

// replyFrom returns a control message that sends a reply from the address to which the
// datagram was sent. The route decides about the interface, except for link-local
// addresses.
func replyFrom(control []byte) []byte {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			// ipi_ifindex, ipi_spec_dst, ipi_addr
			return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: [4]byte(m.Data[8:12])})
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			address := [16]byte(m.Data[:16])
			info := unix.Inet6Pktinfo{Addr: address}
			if netip.AddrFrom16(address).IsLinkLocalUnicast() {
				info.Ifindex = binary.NativeEndian.Uint32(m.Data[16:])
			}
			return unix.PktInfo6(&info)
		}
	}
	return nil
}

// Close stops the responder.
func (r *Responder) Close() error {
	if r == nil {
		return nil
	}
	var err error
	for _, conn := range r.conns {
		err = errors.Join(err, conn.Close())
	}
	r.done.Wait()
	return err
}

// budget is a token bucket that holds what may be spent within a second.
type budget struct {
	spent float64
	then  time.Time
}

// take reports whether one more may be spent.
func (b *budget) take(now time.Time, perSecond float64) bool {
	if !b.then.IsZero() {
		b.spent = max(0, b.spent-now.Sub(b.then).Seconds()*perSecond)
	}
	b.then = now
	if b.spent+1 > perSecond {
		return false
	}
	b.spent++
	return true
}
