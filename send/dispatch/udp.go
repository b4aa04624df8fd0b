package dispatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/send/frame"
)

// udpSockets sends datagrams by ordinary UDP sockets, one for each source. The kernel
// builds their headers, so frames with other headers are refused.
type udpSockets struct {
	device  netlink.Link
	sockets map[netip.AddrPort]*udpSocket
	parsed  map[*frame.Template]*frame.Datagram

	next    *udpSocket // of the prepared packet
	to      unix.Sockaddr
	payload []byte
	control []byte // hop limit and traffic class
	buffer  []byte
}

type udpSocket struct {
	fd           int
	dontFragment bool
}

// limits of what an outlet remembers of a schedule.
const (
	maxUDPSockets  = 4096
	maxParsedNames = 4096
)

func openUDP(options Options, _ bool) (outlet, error) {
	device, err := netlink.LinkByName(options.Device)
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", options.Device, err)
	}
	return &udpSockets{device: device, sockets: map[netip.AddrPort]*udpSocket{}, parsed: map[*frame.Template]*frame.Datagram{}}, nil
}

func (u *udpSockets) prepare(p *Packet) error {
	d, err := u.parse(p.Frame.Template)
	if err != nil {
		return err
	}
	if u.next, err = u.socketOf(d); err != nil {
		return err
	}
	u.to, u.control = u.address(d.Destination), u.control[:0]
	if d.Source.Addr().Is4() {
		u.control = appendOption(u.control, unix.IPPROTO_IP, unix.IP_TTL, d.HopLimit)
		u.control = appendOption(u.control, unix.IPPROTO_IP, unix.IP_TOS, d.TrafficClass)
	} else {
		u.control = appendOption(u.control, unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, d.HopLimit)
		u.control = appendOption(u.control, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, d.TrafficClass)
	}
	u.buffer = p.Frame.AppendTo(u.buffer[:0])
	u.payload = u.buffer[d.PayloadAt:d.End]
	return nil
}

func (u *udpSockets) parse(t *frame.Template) (*frame.Datagram, error) {
	if d, ok := u.parsed[t]; ok {
		return d, nil
	}
	d, err := t.Datagram()
	if err != nil {
		return nil, err
	}
	if own := u.device.Attrs().HardwareAddr; len(own) == len(d.SourceMAC) && !bytes.Equal(own, d.SourceMAC) {
		return nil, fmt.Errorf("%w: its source is %v, the interface's address is %v", frame.ErrDatagram, d.SourceMAC, own)
	}
	if len(u.parsed) >= maxParsedNames {
		clear(u.parsed)
	}
	u.parsed[t] = d
	return d, nil
}

// address of a destination; one that is link-local is on the device.
func (u *udpSockets) address(to netip.AddrPort) unix.Sockaddr {
	if to.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	a := &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	if to.Addr().IsLinkLocalUnicast() || to.Addr().IsLinkLocalMulticast() {
		a.ZoneId = uint32(u.device.Attrs().Index)
	}
	return a
}

// socketOf returns the socket that sends from the datagram's source.
func (u *udpSockets) socketOf(d *frame.Datagram) (*udpSocket, error) {
	s := u.sockets[d.Source]
	if s == nil {
		if len(u.sockets) >= maxUDPSockets {
			return nil, fmt.Errorf("open UDP socket: more than %d sources", maxUDPSockets)
		}
		fd, err := u.open(d.Source)
		if err != nil {
			return nil, fmt.Errorf("open UDP socket from %v: %w", d.Source, err)
		}
		s = &udpSocket{fd: fd}
		u.sockets[d.Source] = s
	}
	if d.Source.Addr().Is4() && s.dontFragment != d.DontFragment {
		discovery := unix.IP_PMTUDISC_INTERFACE
		if d.DontFragment {
			discovery = unix.IP_PMTUDISC_PROBE
		}
		if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, discovery); err != nil {
			return nil, fmt.Errorf("set DF of UDP socket: %w", err)
		}
		s.dontFragment = d.DontFragment
	}
	return s, nil
}

// open opens a socket that fragments nothing and sends by the device only.
func (u *udpSockets) open(source netip.AddrPort) (fd int, err error) {
	family, level, options := unix.AF_INET, unix.IPPROTO_IP, [][2]int{{unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_INTERFACE}}
	if source.Addr().Is6() {
		family, level = unix.AF_INET6, unix.IPPROTO_IPV6
		options = [][2]int{{unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE}, {unix.IPV6_DONTFRAG, 1}, {unix.IPV6_AUTOFLOWLABEL, 0}}
	}
	if fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	for _, o := range options {
		err = errors.Join(err, unix.SetsockoptInt(fd, level, o[0], o[1]))
	}
	// Several senders may use one port, but no other program's.
	err = errors.Join(err, unix.BindToDevice(fd, u.device.Attrs().Name), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	if err == nil {
		err = unix.Bind(fd, u.address(source))
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func (u *udpSockets) send() error {
	return unix.Sendmsg(u.next.fd, u.payload, u.control, u.to, 0)
}

func (u *udpSockets) socket() int { return u.next.fd }

func (u *udpSockets) close() error {
	var failures []error
	for _, s := range u.sockets {
		failures = append(failures, unix.Close(s.fd))
	}
	clear(u.sockets)
	return errors.Join(failures...)
}

// appendOption appends a control message with an int.
func appendOption(b []byte, level, kind int, value uint8) []byte {
	const intBytes = 4
	at := len(b)
	b = append(b, make([]byte, unix.CmsgSpace(intBytes))...)
	head := (*unix.Cmsghdr)(unsafe.Pointer(&b[at]))
	head.Level, head.Type = int32(level), int32(kind)
	head.SetLen(unix.CmsgLen(intBytes))
	binary.NativeEndian.PutUint32(b[at+unix.CmsgLen(0):], uint32(value))
	return b
}
