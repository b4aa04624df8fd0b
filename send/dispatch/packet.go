package dispatch

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ethernet is the length of a frame's link-layer header. A device without link-layer
// addresses takes packets from the network header on.
const ethernet = 14

// packetSocket sends frames by a packet socket (AF_PACKET).
type packetSocket struct {
	fd     int
	spin   bool
	skip   int // bytes of the link-layer header that the device does not have
	buffer []byte
}

func openPacketSocket(options Options, spin bool) (outlet, error) {
	device, err := netlink.LinkByName(options.Device)
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", options.Device, err)
	}
	s := &packetSocket{spin: spin}
	if !isEthernet(device) {
		s.skip = ethernet
	}
	if s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	if err := unix.Bind(s.fd, &unix.SockaddrLinklayer{Ifindex: device.Attrs().Index}); err != nil {
		return nil, errors.Join(fmt.Errorf("bind packet socket to %s: %w", options.Device, err), s.close())
	}
	return s, nil
}

// isEthernet reports whether frames of the device begin with an Ethernet header.
func isEthernet(device netlink.Link) bool {
	kind := device.Attrs().EncapType
	return kind == "ether" || kind == "loopback"
}

func (s *packetSocket) prepare(p *Packet) error {
	s.buffer = p.Frame.AppendTo(s.buffer[:0])
	return nil
}

func (s *packetSocket) send() error {
	b := s.buffer[s.skip:]
	if s.spin { // without asking the Go scheduler for a processor afterwards
		_, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
		if e == 0 {
			return nil
		}
		if e != unix.EAGAIN {
			return e
		}
	}
	_, err := unix.Write(s.fd, b)
	return err
}

func (s *packetSocket) socket() int { return s.fd }

func (s *packetSocket) close() error { return unix.Close(s.fd) }
