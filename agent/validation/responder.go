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
	// holders of the port at a time: to find them is to look at all processes.
	holders string
	looked  time.Time
}

const (
	// answersPerSecond bounds what a responder sends of a kind in each family, and so what forged questions can cause.
	answersPerSecond = 2000
	// answersPerSource bounds it for a host: the tests of a source with several encodings ask for up to 350 in a second.
	answersPerSource = 500
	holdersEvery     = 30 * time.Second
)

// allowance is what may be answered of one kind of questions.
type allowance struct {
	total   budget
	sources [1024]budget // by a hash, since anybody can have many addresses
}

var sourceSeed = maphash.MakeSeed()

// take reports whether a question of a host may be answered.
func (a *allowance) take(from netip.Addr, now time.Time) bool {
	prefix, _ := from.Prefix(min(64, from.BitLen()))
	source := &a.sources[maphash.Comparable(sourceSeed, prefix)%uint64(len(a.sources))]
	return source.take(now, answersPerSource) && a.total.take(now, answersPerSecond)
}

// NewResponder returns a Responder that does not listen yet. Without keys, which may be nil, it seals nothing.
func NewResponder(keys *Keyring, log *slog.Logger) *Responder {
	return &Responder{conns: map[string]*net.UDPConn{}, keys: keys, log: log}
}

// Listen begins to answer probes of each family that is not answered yet, in the network namespace of the calling thread.
// The error is for the user: which are not answered, and who holds the port. A host may lack a family.
func (r *Responder) Listen() error {
	var err error
	var families []string
	for _, network := range []string{"udp4", "udp6"} {
		if r.conns[network] != nil {
			continue
		}
		conn, failed := listen(network)
		if failed == nil {
			r.conns[network] = conn
			r.done.Go(func() { r.answer(conn) })
		} else if !errors.Is(failed, unix.EAFNOSUPPORT) {
			err, families = failed, append(families, "IPv"+network[3:])
		}
	}
	if err == nil {
		return nil
	}
	if time.Since(r.looked) > holdersEvery {
		r.looked, r.holders = time.Now(), PortHolders()
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
	allowed := newAllowances()
	for {
		n, oobn, _, from, err := conn.ReadMsgUDPAddrPort(data, control)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // of one datagram
		}
		asked, reply := askedAt(control[:oobn])
		answer := allowed.answer(r.keys, data[:n], from.Addr(), asked, time.Now())
		if answer == nil {
			continue
		}
		if _, _, err := conn.WriteMsgUDPAddrPort(answer, reply, from); err != nil {
			r.log.Debug("answer path probe", "to", from, "error", err)
		}
	}
}

// allowances are by whether questions have a valid seal: what others ask takes nothing from those.
type allowances map[bool]*allowance

func newAllowances() allowances { return allowances{true: {}, false: {}} }

// answer returns the answer to what a host sent to an address; nil: none.
func (a allowances) answer(keys *Keyring, question []byte, from, asked netip.Addr, now time.Time) []byte {
	probe, err := wire.ParseProbe(question)
	if err != nil || probe.Answer {
		return nil
	}
	probe.Answer = true
	answer, sealed := keys.seal(probe.Append(nil), question, asked)
	if !a[sealed].take(from, now) {
		return nil
	}
	return answer
}

// askedAt returns the address to which a datagram was sent, and a control message that sends a reply from
// there. The route decides about the interface, except for link-local addresses.
func askedAt(control []byte) (address netip.Addr, reply []byte) {
	messages, _ := unix.ParseSocketControlMessage(control) // none if it is malformed
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			info := unix.Inet4Pktinfo{Spec_dst: [4]byte(m.Data[8:12])} // ipi_ifindex, ipi_spec_dst, ipi_addr
			return netip.AddrFrom4(info.Spec_dst), unix.PktInfo4(&info)
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			info := unix.Inet6Pktinfo{Addr: [16]byte(m.Data[:16])}
			if address = netip.AddrFrom16(info.Addr); address.IsLinkLocalUnicast() {
				info.Ifindex = binary.NativeEndian.Uint32(m.Data[16:])
			}
			return address, unix.PktInfo6(&info)
		}
	}
	return netip.Addr{}, nil
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
