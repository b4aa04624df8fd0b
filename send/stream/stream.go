// Package stream sends the packets of a schedule as writes to TCP connections, one for each
// flow: the TCP traffic of D-ITG. It is coarse by nature. The times are when data is written to
// an ordinary socket without Nagle's algorithm, at ordinary priority; congestion and flow
// control decide when segments leave, and a write waits while the socket's buffer is full.
package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// MaxBytes of a write.
const MaxBytes = 65535

// Name of the mechanism in results.
const Name = "tcp-socket"

const (
	connectWait = 10 * time.Second
	// ahead is how many writes of a flow wait for their time.
	ahead = 256
	// slice is the longest sleep before a flow looks for cancellation.
	slice = 50 * time.Millisecond
)

// ErrConnect marks a connection that could not be opened.
var ErrConnect = errors.New("connect")

// errClosed is a write to a connection that failed before.
var errClosed = errors.New("connection failed")

// Sender has the connections.
type Sender struct {
	connections map[string]*net.TCPConn // by flow
	remarks     []string
}

// Open connects all flows from a device. Source ports of the headers count only if fixed is true;
// otherwise the kernel chooses them.
func Open(ctx context.Context, namespace *os.File, device string, flows map[string]*frame.Header, fixed bool) (*Sender, error) {
	s := &Sender{connections: map[string]*net.TCPConn{}}
	connect := func() error {
		for name, h := range flows {
			c, err := dial(ctx, device, h, fixed)
			if err != nil {
				return err
			}
			s.connections[name] = c
		}
		return nil
	}
	var err error
	if namespace != nil {
		err = netns.DoIn(namespace, connect)
	} else {
		err = connect()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.remarks = []string{"times are of writes to TCP sockets: congestion and flow control decide when segments leave"}
	return s, nil
}

// dial connects a flow on the calling thread, which is in the namespace of the device.
func dial(ctx context.Context, device string, h *frame.Header, fixed bool) (*net.TCPConn, error) {
	local := netip.AddrPortFrom(h.Source, 0)
	if fixed {
		local = netip.AddrPortFrom(h.Source, h.SourcePort)
	}
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(local), Timeout: connectWait, Control: func(_, _ string, raw syscall.RawConn) (err error) {
		controlled := raw.Control(func(fd uintptr) { err = set(int(fd), device, h) })
		return errors.Join(controlled, err)
	}}
	to := netip.AddrPortFrom(h.Destination, h.DestinationPort)
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		var cause syscall.Errno
		if errors.As(err, &cause) {
			err = cause // without the addresses, which the message has already
		}
		return nil, fmt.Errorf("%w to %v: %w", ErrConnect, to, err)
	}
	return c.(*net.TCPConn), nil // without Nagle's algorithm, which is Go's default
}

// set sets the options of a socket that headers have.
func set(fd int, device string, h *frame.Header) error {
	level, class, hops := unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_UNICAST_HOPS
	if h.Destination.Is4() {
		level, class, hops = unix.IPPROTO_IP, unix.IP_TOS, unix.IP_TTL
	}
	err := errors.Join(unix.BindToDevice(fd, device), unix.SetsockoptInt(fd, level, class, int(h.TrafficClass&^3)))
	if h.HopLimit != 0 {
		err = errors.Join(err, unix.SetsockoptInt(fd, level, hops, int(h.HopLimit)))
	}
	if err != nil {
		return fmt.Errorf("set socket options: %w", err)
	}
	return nil
}

// Name of the mechanism.
func (s *Sender) Name() string { return Name }

// Remarks says what limits the accuracy.
func (s *Sender) Remarks() []string { return s.remarks }

// Uncertainty is not known: the times are of system calls.
func (s *Sender) Uncertainty() map[dispatch.Source]time.Duration { return nil }

// Close closes the connections.
func (s *Sender) Close() error {
	var failures []error
	for _, c := range s.connections {
		failures = append(failures, c.Close())
	}
	return errors.Join(failures...)
}

// write is one packet of a schedule.
type write struct {
	schedule.Entry
	intended int64
}

// Send writes what the schedule says and reports each write when it is complete, on the
// calling goroutine. Each flow writes by itself, so that one whose peer is slow delays no other.
func (s *Sender) Send(ctx context.Context, delay time.Duration, packets schedule.Schedule, report func(dispatch.Record)) (failed error) {
	stop := context.AfterFunc(ctx, func() {
		for _, c := range s.connections {
			_ = c.SetWriteDeadline(time.Unix(1, 0)) // a write that waits ends
		}
	})
	defer stop()
	results := make(chan dispatch.Record, ahead)
	queues := map[string]chan write{}
	var flows sync.WaitGroup
	for name, c := range s.connections {
		queue := make(chan write, ahead)
		queues[name] = queue
		flows.Go(func() { flow(ctx, c, queue, results) })
	}
	start := dispatch.Now() + int64(delay)
	for e, err := range packets {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			failed = err
			break
		}
		w := write{e, start + int64(e.Due)}
		queue, known := queues[e.Flow]
		if !known {
			report(w.record(dispatch.Failed, fmt.Errorf("%w: no flow %q", frame.ErrHeader, e.Flow)))
			continue
		}
		for queued := false; !queued; {
			select {
			case queue <- w:
				queued = true
			case r := <-results:
				report(r)
			}
		}
	}
	for _, queue := range queues {
		close(queue)
	}
	go func() {
		flows.Wait()
		close(results)
	}()
	for r := range results {
		report(r)
	}
	return errors.Join(failed, ctx.Err())
}

func (w *write) record(fate dispatch.Fate, cause error) dispatch.Record {
	return dispatch.Record{Train: w.Train, Number: w.Number, Bytes: w.Size, Intended: w.intended, Fate: fate, Error: cause}
}

// flow writes to one connection.
func flow(ctx context.Context, c *net.TCPConn, queue <-chan write, results chan<- dispatch.Record) {
	payload := make([]byte, MaxBytes)
	var broken error
	for w := range queue {
		if w.Size < 1 || w.Size > MaxBytes {
			results <- w.record(dispatch.Failed, fmt.Errorf("%w: a write of %d bytes: must be 1 to %d", frame.ErrHeader, w.Size, MaxBytes))
			continue
		}
		if broken != nil {
			results <- w.record(dispatch.Failed, broken)
			continue
		}
		if sleep(ctx, w.intended) != nil {
			results <- w.record(dispatch.Cancelled, nil)
			continue
		}
		r := w.record(dispatch.Sent, nil)
		r.Handed = dispatch.Now()
		copy(payload, w.Payload)
		if _, err := c.Write(payload[:w.Size]); err != nil {
			r.Fate, r.Error, r.Handed = dispatch.Failed, cause(err), 0
			if ctx.Err() != nil {
				r.Fate, r.Error = dispatch.Cancelled, nil
			}
			broken = fmt.Errorf("%w: %w", errClosed, cause(err))
		}
		clear(payload[:len(w.Payload)])
		results <- r
	}
}

// cause of an error of a connection, without its addresses.
func cause(err error) error {
	if e := (syscall.Errno)(0); errors.As(err, &e) {
		return e
	}
	return err
}

// sleep until a time of CLOCK_MONOTONIC, or until the context ends.
func sleep(ctx context.Context, until int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		here := dispatch.Now()
		if here >= until {
			return nil
		}
		at := unix.NsecToTimespec(min(until, here+int64(slice)))
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil); err != nil && err != unix.EINTR {
			return err
		}
	}
}
