package codec

import (
	"encoding/binary"
	"fmt"
	"math"

	"pillion.dev/wire"
)

// The experimental option of UDP (RFC 9868) and its experiment identifier.
const (
	OptionKind       = 127
	ExID             = 0x504c
	experimentLength = 12
	udpOptionSize    = 14
)

func init() { layouts[wire.UDPOption] = layout{insertUDPOption, extractUDPOption} }

// insertUDPOption appends the surplus area to a UDP datagram that has none.
func insertUDPOption(packet []byte, m Mark, _ uint16) ([]byte, error) {
	at, err := udpPlace(packet)
	if err != nil {
		return nil, err
	}
	if length := int(binary.BigEndian.Uint16(packet[at+4:])); length < udpSize || length != len(packet)-at {
		return nil, fmt.Errorf("UDP length %d of %d: %w", length, len(packet)-at, ErrSurplus)
	}
	mark, err := m.appendExperiment(nil)
	if err != nil {
		return nil, err
	}
	marked := append(make([]byte, 0, len(packet)+udpOptionSize+1), packet...)
	if (len(packet)-at)%2 != 0 {
		marked = append(marked, 0)
	}
	area := len(marked) + udpOptionSize - len(packet)
	if total := len(packet) + area; total > math.MaxUint16 {
		return nil, fmt.Errorf("total of %d bytes: %w", total, ErrTooLong)
	}
	check := ^sum16(uint32(area), mark)
	if check == 0 {
		check = math.MaxUint16
	}
	marked = append(binary.BigEndian.AppendUint16(marked, check), mark...)
	setLength(marked)
	return marked, nil
}

// extractUDPOption cuts off a surplus area that consists of a mark.
func extractUDPOption(packet []byte, _ uint16) (original []byte, m Mark, err error) {
	at, err := udpPlace(packet)
	if err != nil {
		return nil, Mark{}, fmt.Errorf("%w: %w", ErrNotMark, err)
	}
	length := int(binary.BigEndian.Uint16(packet[at+4:]))
	area := len(packet) - at - length
	if length < udpSize || area != udpOptionSize+length%2 {
		return nil, Mark{}, fmt.Errorf("surplus area of %d bytes: %w", area, ErrNotMark)
	}
	option := packet[len(packet)-udpOptionSize:]
	if option[2] != OptionKind || binary.BigEndian.Uint16(option[4:]) != ExID {
		return nil, Mark{}, fmt.Errorf("option %x: %w", option[2:6], ErrNotMark)
	}
	if pad := packet[at+length]; area > udpOptionSize && pad != 0 {
		return nil, Mark{}, fmt.Errorf("padding %#02x: %w", pad, ErrMalformed)
	}
	if sum := sum16(uint32(area), option); sum != math.MaxUint16 || option[0]|option[1] == 0 {
		return nil, Mark{}, fmt.Errorf("checksum %x of options, sum %#04x: %w", option[:2], sum, ErrMalformed)
	}
	if err := m.setExperiment(option[2:]); err != nil {
		return nil, Mark{}, err
	}
	original = append([]byte(nil), packet[:at+length]...)
	setLength(original)
	return original, m, nil
}

// udpPlace returns the offset of the UDP header, which must follow the fixed IP header.
func udpPlace(packet []byte) (at int, err error) {
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
	if protocol != protocolUDP {
		return 0, fmt.Errorf("protocol %d: %w", protocol, ErrEncoding)
	}
	if len(packet) < at+udpSize {
		return 0, fmt.Errorf("%d bytes of UDP header: %w", len(packet)-at, ErrShort)
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
