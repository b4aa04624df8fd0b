// Package reply matches what comes back with the packets that were sent, for round-trip
// times to hosts that do not cooperate: echo replies, SYN-ACK and RST of TCP, and ICMP
// errors of the host or of routers on the way. Times are the kernel's, from when the
// packet entered the host.
//
// Each packet is numbered in its headers (Prepare), so that a reply names the packet it
// is for even if it quotes only 8 bytes of it.
package reply

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/clock"
	"pillion.dev/internal/netns"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// Kind of a reply.
type Kind string

// Kinds.
const (
	EchoReply    Kind = "echo-reply"
	SynAck       Kind = "syn-ack" // the port is open
	Reset        Kind = "rst"     // the port is closed, or the connection unknown
	Ack          Kind = "ack"
	Unreachable  Kind = "unreachable"
	TimeExceeded Kind = "time-exceeded"
)

// Reply is the first reply to a packet.
type Reply struct {
	Kind Kind
	From netip.Addr
	// At is when the kernel received it, CLOCK_MONOTONIC in nanoseconds. It is converted
	// from the real-time clock: a step of that clock in between is an error of its size.
	At int64
}

// outstanding is how many packets may await a reply at a time: indexes of ICMP and IPv4
// have 16 bits.
const outstanding = wrap16

type name struct{ train, number uint32 }

type expected struct {
	name
	index uint32
	known bool
}

// Listener receives replies to the packets of some flows.
type Listener struct {
	fd      int
	headers map[string]*frame.Header
	ended   sync.WaitGroup
	closing chan struct{}

	mu         sync.Mutex
	next       uint32 // index of the next packet; the first is random, so that late replies to packets of another run fit none
	expected   [outstanding]expected
	replies    map[name]Reply
	duplicates uint64
}

// Listen receives on an interface; a nil namespace is the caller's. Headers by the names of
// their flows have addresses.
func Listen(namespace *os.File, device string, headers map[string]*frame.Header) (*Listener, error) {
	l := &Listener{fd: -1, headers: headers, closing: make(chan struct{}), next: rand.Uint32(), replies: map[name]Reply{}}
	open := func() error { return l.open(device) }
	var err error
	if namespace != nil {
		err = netns.DoIn(namespace, open)
	} else {
		err = open()
	}
	if err != nil {
		if l.fd >= 0 {
			unix.Close(l.fd)
		}
		return nil, fmt.Errorf("listen for replies on %s: %w", device, err)
	}
	l.ended.Go(l.receive)
	return l, nil
}

// all is ETH_P_ALL in network byte order.
const all = 0x0300

// receiveBuffer holds the replies to some thousand packets at once.
const receiveBuffer = 4 << 20

func (l *Listener) open(device string) error {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	if l.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	end := unix.NsecToTimeval(int64(50 * time.Millisecond)) // to look whether it is to end
	return errors.Join(
		unix.SetsockoptInt(l.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer),
		unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &end),
		unix.Bind(l.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: dev.Index}),
	)
}

// Prepare numbers a packet and expects a reply to it.
func (l *Listener) Prepare(h *frame.Header, e *schedule.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	Number(h, l.next)
	l.expected[l.next%outstanding] = expected{name{e.Train, e.Number}, l.next, true}
	l.next++
}

// Of returns the reply to a packet.
func (l *Listener) Of(train, number uint32) (Reply, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.replies[name{train, number}]
	return r, ok
}

// Await waits until so many packets have a reply, or the time is over.
func (l *Listener) Await(ctx context.Context, packets uint64, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for l.count() < packets {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (l *Listener) count() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.replies))
}

// Duplicates counts replies behind the first to a packet.
func (l *Listener) Duplicates() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.duplicates
}

// Close ends the listener.
func (l *Listener) Close() error {
	close(l.closing)
	l.ended.Wait()
	return unix.Close(l.fd)
}

func (l *Listener) receive() {
	b, oob := make([]byte, 2048), make([]byte, 64)
	for {
		n, control, _, _, err := unix.Recvmsg(l.fd, b, oob, 0)
		select {
		case <-l.closing:
			return
		default:
		}
		if err != nil {
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
				continue
			}
			return // the interface went away: nothing more arrives
		}
		l.take(b[:n], stamp(oob[:control]))
	}
}

// take matches a packet that was received at a real time in nanoseconds.
func (l *Listener) take(b []byte, at int64) {
	for _, h := range l.headers {
		a, ok := match(h, b)
		if !ok {
			continue
		}
		offset, err := clock.MonotonicOffset()
		if err != nil {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		who, ok := l.find(a)
		if _, again := l.replies[who]; !ok || again {
			if ok {
				l.duplicates++
			}
			return
		}
		l.replies[who] = Reply{Kind: a.kind, From: a.from, At: at - int64(offset)}
		return
	}
}

// find names the packet: of those that the answer may be for, the last one prepared.
func (l *Listener) find(a answer) (name, bool) {
	if a.wrap == 0 {
		return name{a.tag.Train, a.tag.Number}, true
	}
	last := l.next - 1
	index := last - uint32((uint64(last)+a.wrap-uint64(a.index)%a.wrap)%a.wrap)
	e := l.expected[index%outstanding]
	return e.name, e.known && e.index == index
}

// stamp reads the kernel's time of receipt.
func stamp(oob []byte) int64 {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err == nil {
		for _, m := range messages {
			if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})) {
				return (*unix.Timespec)(unsafe.Pointer(&m.Data[0])).Nano()
			}
		}
	}
	return time.Now().UnixNano()
}
