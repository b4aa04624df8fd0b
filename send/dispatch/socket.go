package dispatch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// spinAhead is how long before its due time a packet's wait becomes a busy one.
const spinAhead = 300 * time.Microsecond

// ethernet is the length of a frame's link-layer header. A device without link-layer
// addresses takes packets from the network header on.
const ethernet = 14

// socket sends by a packet socket, one packet after the other.
type socket struct {
	name    string
	options Options
	spin    bool
	fd      int
	skip    int // bytes of the link-layer header that the device does not have
	buffer  []byte
	remarks []string
}

func openSpin(options Options) (Sender, error)  { return openSocket("packet-spin", options, true) }
func openSleep(options Options) (Sender, error) { return openSocket("packet-sleep", options, false) }

func openSocket(name string, options Options, spin bool) (Sender, error) {
	s := &socket{name: name, options: options, spin: spin, fd: -1}
	err := onThread(options.Namespace, func() error {
		device, err := netlink.LinkByName(options.Device)
		if err != nil {
			return fmt.Errorf("find interface %s: %w", options.Device, err)
		}
		if kind := device.Attrs().EncapType; kind != "ether" && kind != "loopback" {
			s.skip = ethernet
		}
		if s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return fmt.Errorf("open packet socket: %w", err)
		}
		if err := unix.Bind(s.fd, &unix.SockaddrLinklayer{Ifindex: device.Attrs().Index}); err != nil {
			return fmt.Errorf("bind packet socket to %s: %w", options.Device, err)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *socket) Name() string      { return s.name }
func (s *socket) Remarks() []string { return s.remarks }

func (s *socket) Close() error {
	if s.fd < 0 {
		return nil
	}
	err := unix.Close(s.fd)
	s.fd = -1
	return err
}

// Send prepares, waits and sends, packet by packet. It reports each when the next one's
// wait allows it, so that reporting delays no packet.
func (s *socket) Send(ctx context.Context, delay time.Duration, packets iter.Seq2[Packet, error], report func(Record)) error {
	return onThread(nil, func() error {
		if s.spin {
			if err := errors.Join(blockSignals(), prioritise()); err != nil {
				s.remarks = append(s.remarks, fmt.Sprintf("ordinary priority: %v", err))
			}
		}
		start := now() + int64(delay)
		for p, err := range packets {
			if err != nil {
				return err
			}
			report(s.send(ctx, start, p))
		}
		return ctx.Err()
	})
}

func (s *socket) send(ctx context.Context, start int64, p Packet) Record {
	due := start + int64(p.Due)
	r := Record{Train: p.Train, Number: p.Number, Bytes: p.Bytes(), Intended: due}
	if p.Invalid != nil {
		r.Fate, r.Error = Failed, p.Invalid
		return r
	}
	s.buffer = p.Frame.AppendTo(s.buffer[:0])
	wake := due
	if s.spin {
		wake -= int64(spinAhead)
	}
	if sleepUntil(ctx, wake) != nil {
		return r
	}
	r.Handed = now()
	for s.spin && r.Handed < due {
		r.Handed = now()
	}
	if s.options.DropLate > 0 && r.Handed > due+int64(s.options.DropLate) {
		r.Fate = DroppedLate
		return r
	}
	if _, err := unix.Write(s.fd, s.buffer[s.skip:]); err != nil {
		r.Fate, r.Error = Failed, err
		return r
	}
	r.Fate = Sent
	return r
}
