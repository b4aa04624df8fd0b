package codec

import (
	"encoding/binary"
	"fmt"
	"math"
)

// transportPlace returns the offset of a transport header of at least size bytes, which must
// follow the fixed IP header.
func transportPlace(packet []byte, want uint8, size int) (at int, err error) {
	var protocol uint8
	if packet[0]>>4 == 4 {
		at, protocol = ipv4Size, packet[9]
		if size := headerSize(packet); size != ipv4Size {
			return 0, fmt.Errorf("header of %d bytes: %w", size, ErrHeaderOptions)
		}
	} else {
		if len(packet) < ipv6Size {
			return 0, fmt.Errorf("%d bytes of IPv6 header: %w", len(packet), ErrShort)
		}
		at, protocol = ipv6Size, packet[6]
		if payload := int(binary.BigEndian.Uint16(packet[4:])); payload != len(packet)-ipv6Size {
			return 0, fmt.Errorf("IPv6 payload length %d of %d bytes: %w", payload, len(packet)-ipv6Size, ErrLength)
		}
	}
	if protocol != want {
		return 0, fmt.Errorf("protocol %d: %w", protocol, ErrEncoding)
	}
	if len(packet) < at+size {
		return 0, fmt.Errorf("%d bytes of transport header: %w", len(packet)-at, ErrShort)
	}
	return at, nil
}

// setLength makes the length field of an IP packet right.
func setLength(packet []byte) {
	if packet[0]>>4 == 4 {
		seal(packet, packet[9])
	} else {
		binary.BigEndian.PutUint16(packet[4:], uint16(len(packet)-ipv6Size))
	}
}

// sum16 adds the 16-bit words of b, of even length, to sum in one's complement.
func sum16(sum uint32, b []byte) uint16 {
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > math.MaxUint16 {
		sum = sum>>16 + sum&math.MaxUint16
	}
	return uint16(sum)
}
