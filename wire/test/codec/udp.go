package codec

import (
	"encoding/binary"
	"fmt"
	"slices"

	"pillion.dev/wire"
)

// udpSize is the size of a UDP header.
const udpSize = 8

func init() { layouts[wire.UDP] = layout{insertUDP, extractUDP} }

// insertUDP puts an outer IPv4 header, a UDP header and a shim in front of packet.
func insertUDP(packet []byte, m Mark, port uint16) ([]byte, error) {
	if port == 0 {
		return nil, fmt.Errorf("port %d: %w", port, ErrPort)
	}
	total := len(packet) + m.overhead(wire.UDP)
	marked := appendOuter(make([]byte, 0, total), packet, protocolUDP, total)
	marked = binary.BigEndian.AppendUint16(marked, sourcePort(packet))
	marked = binary.BigEndian.AppendUint16(marked, port)
	marked = binary.BigEndian.AppendUint16(marked, uint16(total-ipv4Size))
	marked = binary.BigEndian.AppendUint16(marked, 0)
	marked = AppendShim(marked, protocolIPIP, m)
	return append(marked, packet...), nil
}

// extractUDP takes off the outer headers and the shim.
func extractUDP(packet []byte, port uint16) (original []byte, m Mark, err error) {
	if err := checkProtocol(packet, protocolUDP); err != nil {
		return nil, Mark{}, err
	}
	datagram := packet[ipv4Size:]
	if len(datagram) < udpSize {
		return nil, Mark{}, fmt.Errorf("%d bytes of UDP header: %w", len(datagram), ErrShort)
	}
	if to := binary.BigEndian.Uint16(datagram[2:]); to != port || port == 0 {
		return nil, Mark{}, fmt.Errorf("UDP port %d: %w", to, ErrNotMark)
	}
	if sum := binary.BigEndian.Uint16(datagram[6:]); sum != 0 {
		return nil, Mark{}, fmt.Errorf("UDP checksum %#04x: %w", sum, ErrNotMark)
	}
	if length := int(binary.BigEndian.Uint16(datagram[4:])); length != len(datagram) {
		return nil, Mark{}, fmt.Errorf("UDP length %d of %d: %w", length, len(datagram), ErrMalformed)
	}
	m, next, n, err := ParseShim(datagram[udpSize:])
	if err != nil {
		return nil, Mark{}, err
	}
	if next != protocolIPIP {
		return nil, Mark{}, fmt.Errorf("next protocol %d in UDP: %w", next, ErrMalformed)
	}
	inner := datagram[udpSize+n:]
	if len(inner) < ipv4Size {
		return nil, Mark{}, fmt.Errorf("%d bytes of inner IPv4 header: %w", len(inner), ErrShort)
	}
	if err := checkInner(packet, inner); err != nil {
		return nil, Mark{}, err
	}
	original = slices.Clone(inner)
	follow(original, packet)
	return original, m, nil
}

// sourcePort hashes a packet's five-tuple into the ports from 0xC000 up.
func sourcePort(packet []byte) uint16 {
	hash := uint32(2166136261) // FNV-1a
	add := func(b []byte) {
		for _, c := range b {
			hash = (hash ^ uint32(c)) * 16777619
		}
	}
	add(packet[12:20])
	add(packet[9:10])
	size := headerSize(packet)
	if p := packet[9]; (p == protocolTCP || p == protocolUDP) && len(packet) >= size+4 {
		add(packet[size : size+4])
	}
	return 0xc000 | uint16(hash^hash>>16)&0x3fff
}
