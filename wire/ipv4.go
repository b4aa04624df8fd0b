package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Header sizes without options.
const (
	ipv4Size = 20
	udpSize  = 8
)

// IPv4 flags and fragment offset (RFC 791).
const (
	flagDF       = 0x4000
	fragmentMask = 0x3fff // MF and offset: nonzero in every fragment
)

// insertIPv4 writes m into an IPv4 packet.
func insertIPv4(packet []byte, enc Encoding, m Mark, port uint16) ([]byte, error) {
	if err := checkIPv4(packet); err != nil {
		return nil, err
	}
	if field := fragmentField(packet); field&fragmentMask != 0 {
		return nil, fmt.Errorf("fragment field %#04x: %w", field, ErrFragment)
	}
	if size := headerSize(packet); size != ipv4Size && enc != UDP {
		return nil, fmt.Errorf("header of %d bytes: %w", size, ErrHeaderOptions)
	}
	if _, _, was, err := extractIPv4(packet, port); err == nil {
		return nil, fmt.Errorf("%v mark of protocol %d: %w", was, packet[9], ErrMarked)
	}
	total := len(packet) + enc.Overhead(m.Modules)
	if total > math.MaxUint16 {
		return nil, fmt.Errorf("total of %d bytes: %w", total, ErrTooLong)
	}
	marked := make([]byte, 0, total)
	switch enc {
	case IPIP:
		marked = appendOuter(marked, packet, protocolIPIP, total)
	case UDP:
		marked = appendOuter(marked, packet, protocolUDP, total)
		marked = binary.BigEndian.AppendUint16(marked, sourcePort(packet))
		marked = binary.BigEndian.AppendUint16(marked, port)
		marked = binary.BigEndian.AppendUint16(marked, uint16(total-ipv4Size))
		marked = binary.BigEndian.AppendUint16(marked, 0)
		marked = AppendShim(marked, protocolIPIP, m)
		return append(marked, packet...), nil
	}
	at := len(marked)
	marked = append(marked, packet[:ipv4Size]...)
	marked = AppendShim(marked, packet[9], m)
	marked = append(marked, packet[ipv4Size:]...)
	seal(marked[at:], Protocol)
	return marked, nil
}

// extractIPv4 takes the mark out of an IPv4 packet.
func extractIPv4(packet []byte, port uint16) (original []byte, m Mark, enc Encoding, err error) {
	if err := checkIPv4(packet); err != nil {
		return nil, Mark{}, 0, err
	}
	if field := fragmentField(packet); field&fragmentMask != 0 {
		return nil, Mark{}, 0, fmt.Errorf("fragment field %#04x: %w", field, ErrNotMark)
	}
	if size := headerSize(packet); size != ipv4Size {
		return nil, Mark{}, 0, fmt.Errorf("header of %d bytes: %w", size, ErrNotMark)
	}
	switch packet[9] {
	case Protocol:
		original, m, err = extractShim(packet)
		return original, m, Shim, err
	case protocolIPIP:
		original, m, err = extractIPIP(packet)
		return original, m, IPIP, err
	case protocolUDP:
		original, m, err = extractUDP(packet, port)
		return original, m, UDP, err
	}
	return nil, Mark{}, 0, fmt.Errorf("protocol %d: %w", packet[9], ErrNotMark)
}

// extractShim takes out the shim that follows a header without options.
func extractShim(packet []byte) (original []byte, m Mark, err error) {
	m, next, n, err := ParseShim(packet[ipv4Size:])
	if err != nil {
		return nil, Mark{}, err
	}
	original = make([]byte, 0, len(packet)-n)
	original = append(original, packet[:ipv4Size]...)
	original = append(original, packet[ipv4Size+n:]...)
	seal(original, next)
	return original, m, nil
}

// extractIPIP takes off the outer header and takes the shim out of the inner packet.
func extractIPIP(packet []byte) (original []byte, m Mark, err error) {
	inner := packet[ipv4Size:]
	if len(inner) < ipv4Size || inner[0] != 0x45 || inner[9] != Protocol || fragmentField(inner)&fragmentMask != 0 {
		return nil, Mark{}, fmt.Errorf("packet in IPv4: %w", ErrNotMark)
	}
	if err := checkInner(packet, inner); err != nil {
		return nil, Mark{}, err
	}
	return extractShim(inner)
}

// extractUDP takes off the outer headers and the shim.
func extractUDP(packet []byte, port uint16) (original []byte, m Mark, err error) {
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
	return append([]byte(nil), inner...), m, nil
}

// checkInner checks that a tunnel ends where the packet inside, of at least
// 20 bytes, does, and that this packet is sound.
func checkInner(outer, inner []byte) error {
	if string(outer[12:20]) != string(inner[12:20]) {
		return fmt.Errorf("tunnel %v for %v: %w", outer[12:20], inner[12:20], ErrNotMark)
	}
	if version := inner[0] >> 4; version != 4 {
		return fmt.Errorf("inner version %d: %w", version, ErrMalformed)
	}
	if err := checkIPv4(inner); err != nil {
		return fmt.Errorf("inner header: %w: %w", ErrMalformed, err)
	}
	return nil
}

// checkIPv4 checks that packet, of version 4, is whole and its header right.
func checkIPv4(packet []byte) error {
	if len(packet) < ipv4Size {
		return fmt.Errorf("%d bytes of IPv4 header: %w", len(packet), ErrShort)
	}
	size := headerSize(packet)
	if size < ipv4Size || size > len(packet) {
		return fmt.Errorf("IPv4 header length %d of %d: %w", size, len(packet), ErrLength)
	}
	if total := int(binary.BigEndian.Uint16(packet[2:])); total != len(packet) {
		return fmt.Errorf("IPv4 total length %d of %d: %w", total, len(packet), ErrLength)
	}
	if sum, want := binary.BigEndian.Uint16(packet[10:]), headerChecksum(packet); sum != want {
		return fmt.Errorf("checksum %#04x, not %#04x: %w", sum, want, ErrChecksum)
	}
	return nil
}

// appendOuter appends the header of a tunnel for the packet inner.
func appendOuter(b, inner []byte, protocol uint8, total int) []byte {
	at := len(b)
	b = append(b, inner[:ipv4Size]...)
	b[at] = 0x45
	binary.BigEndian.PutUint16(b[at+6:], fragmentField(inner)&flagDF)
	b[at+9] = protocol
	binary.BigEndian.PutUint16(b[at+2:], uint16(total))
	binary.BigEndian.PutUint16(b[at+10:], headerChecksum(b[at:]))
	return b
}

// seal sets protocol, total length and checksum of an IPv4 packet.
func seal(packet []byte, protocol uint8) {
	packet[9] = protocol
	binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)))
	binary.BigEndian.PutUint16(packet[10:], headerChecksum(packet))
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

// headerChecksum returns the checksum that an IPv4 header should have (RFC
// 1071), whatever its checksum field holds.
func headerChecksum(packet []byte) uint16 {
	var sum uint32
	for i := 0; i < headerSize(packet); i += 2 {
		if i != 10 {
			sum += uint32(binary.BigEndian.Uint16(packet[i:]))
		}
	}
	for sum > math.MaxUint16 {
		sum = sum>>16 + sum&math.MaxUint16
	}
	return ^uint16(sum)
}

func headerSize(packet []byte) int { return 4 * int(packet[0]&0xf) }

func fragmentField(packet []byte) uint16 { return binary.BigEndian.Uint16(packet[6:]) }
