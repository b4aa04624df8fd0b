package hold

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Process gets each packet that a router forwards, as firewalls in user space do, and
// lets it go after a time.
type Process struct {
	socket int
	end    atomic.Bool
	done   chan error
	spans  []Span
}

// HoldByProcess sends all IPv4 packets that are forwarded in the namespace of the calling
// thread to this process, which holds them in turn for no time, an eighth of the time
// and so on up to seven of them. It asks the kernel for packets all the time, on a
// processor that it takes for itself: so it gets them at once. The rule that sends them
// stays with the namespace.
func HoldByProcess(cpu int, d time.Duration) (*Process, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("hold by process: %w", err)
	}
	if err := bindQueue(socket); err != nil {
		return nil, errors.Join(fmt.Errorf("hold by process: %w", err), unix.Close(socket))
	}
	p := &Process{socket: socket, done: make(chan error, 1)}
	go func() { p.done <- p.run(cpu, d) }()
	return p, nil
}

// backlog is how many bytes of packets may wait for the process while it is not scheduled:
// the default holds 256 packets, after which the kernel drops more and fails a read.
const backlog = 16 << 20

func bindQueue(socket int) error {
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, backlog); err != nil {
		return fmt.Errorf("set receive buffer: %w", err)
	}
	if err := unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	if err := talk(socket, bind()); err != nil {
		return fmt.Errorf("bind queue (CONFIG_NETFILTER_NETLINK_QUEUE): %w", err)
	}
	if err := talk(socket, queueAll()); err != nil {
		return fmt.Errorf("add rule (CONFIG_NFT_COMPAT, CONFIG_NETFILTER_XT_TARGET_NFQUEUE): %w", err)
	}
	return nil
}

func (p *Process) run(cpu int, d time.Duration) error {
	runtime.LockOSThread() // and never unlocked: the thread ends
	if err := takeProcessor(cpu); err != nil {
		return err
	}
	buffer := make([]byte, 8192)
	for !p.end.Load() {
		n, _, err := unix.Recvfrom(p.socket, buffer, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("receive packet: %w", err)
		}
		span := Span{Begin: now()}
		id, found := packetID(buffer[:n])
		if !found {
			return errors.New("receive packet: it has no number")
		}
		verdict := accept(id)
		until := span.Begin + uint64(d)*uint64(len(p.spans)%8)/8
		for span.End = now(); span.End < until; span.End = now() {
		}
		if err := unix.Sendto(p.socket, verdict, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return fmt.Errorf("let packet go: %w", err)
		}
		p.spans = append(p.spans, span)
	}
	return nil
}

// Stop ends it, and returns when it held packets. Those that come then are dropped.
func (p *Process) Stop() ([]Span, error) {
	p.end.Store(true)
	err := <-p.done
	return p.spans, errors.Join(err, unix.Close(p.socket))
}

func now() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail
	return uint64(t.Nano())
}
