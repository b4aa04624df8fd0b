package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Datagram is what a UDP socket needs to know to send the same packet as a frame.
type Datagram struct {
	SourceMAC           net.HardwareAddr
	Source, Destination netip.AddrPort
	HopLimit            uint8
	TrafficClass        uint8
	DontFragment        bool // IPv4
	// The payload is the frame's bytes from PayloadAt to End.
	PayloadAt, End int
}

// ErrDatagram marks a frame that no UDP socket sends as it is.
var ErrDatagram = errors.New("UDP sockets cannot send this frame")

func noDatagram(why string) error { return fmt.Errorf("%w: %s", ErrDatagram, why) }

const (
	ethernetBytes = 14
	ipv4Bytes     = 20
	ipv6Bytes     = 40
	udpBytes      = 8
	protocolUDP   = 17
)

// Datagram reads the headers of the frame. It fails if a UDP socket would send another
// packet: the kernel then chooses what the socket's user cannot.
func (t *Template) Datagram() (*Datagram, error) {
	b := t.Bytes
	if len(b) < ethernetBytes {
		return nil, noDatagram("it has no Ethernet header")
	}
	d := &Datagram{SourceMAC: net.HardwareAddr(bytes.Clone(b[6:12]))}
	var source, destination netip.Addr
	var at, end int
	var err error
	switch ip := b[ethernetBytes:]; binary.BigEndian.Uint16(b[12:]) {
	case 0x0800:
		source, destination, end, err = d.readIPv4(ip)
		at = ethernetBytes + ipv4Bytes
	case 0x86dd:
		source, destination, end, err = d.readIPv6(ip)
		at = ethernetBytes + ipv6Bytes
	default:
		return nil, noDatagram(fmt.Sprintf("its EtherType is %#06x, not IPv4 or IPv6", b[12:14]))
	}
	if err != nil {
		return nil, err
	}
	d.End = ethernetBytes + end
	if d.End < at+udpBytes || d.End > len(b) || int(binary.BigEndian.Uint16(b[at+4:])) != d.End-at {
		return nil, noDatagram("its lengths contradict each other")
	}
	d.Source = netip.AddrPortFrom(source, binary.BigEndian.Uint16(b[at:]))
	d.Destination = netip.AddrPortFrom(destination, binary.BigEndian.Uint16(b[at+2:]))
	if d.Source.Port() == 0 || d.Destination.Port() == 0 {
		return nil, noDatagram("a port is 0")
	}
	d.PayloadAt = at + udpBytes
	return d, nil
}

func (d *Datagram) readIPv4(b []byte) (source, destination netip.Addr, length int, err error) {
	switch {
	case len(b) < ipv4Bytes || b[0] != 0x45:
		return source, destination, 0, noDatagram("it has no IPv4 header, or one with options")
	case b[9] != protocolUDP:
		return source, destination, 0, noDatagram(fmt.Sprintf("its protocol is %d, not UDP", b[9]))
	case b[6]&0xbf != 0 || b[7] != 0:
		return source, destination, 0, noDatagram("it is a fragment")
	case b[4] != 0 || b[5] != 0:
		return source, destination, 0, noDatagram("it has an IPv4 identification, which the kernel chooses")
	}
	d.TrafficClass, d.HopLimit, d.DontFragment = b[1], b[8], b[6]&0x40 != 0
	return netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20])), int(binary.BigEndian.Uint16(b[2:])), nil
}

func (d *Datagram) readIPv6(b []byte) (source, destination netip.Addr, length int, err error) {
	if len(b) < ipv6Bytes || b[0]>>4 != 6 {
		return source, destination, 0, noDatagram("it has no IPv6 header")
	}
	head := binary.BigEndian.Uint32(b)
	switch {
	case b[6] != protocolUDP:
		return source, destination, 0, noDatagram(fmt.Sprintf("its next header is %d, not UDP", b[6]))
	case head&0xfffff != 0:
		return source, destination, 0, noDatagram("it has a flow label, which the kernel chooses")
	}
	d.TrafficClass, d.HopLimit = uint8(head>>20), b[7]
	return netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])), ipv6Bytes + int(binary.BigEndian.Uint16(b[4:])), nil
}
