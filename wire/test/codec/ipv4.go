package codec

import (
	"encoding/binary"
	"fmt"
	"math"

	"pillion.dev/wire"
)

// ipv4Size is the size of an IPv4 header without options.
const ipv4Size = 20

// IPv4 flags and fragment offset (RFC 791).
const (
	flagDF       = 0x4000
	fragmentMask = 0x3fff // MF and offset: nonzero in every fragment
)

// checkInsertIPv4 checks that an IPv4 packet can be marked.
func checkInsertIPv4(packet []byte, enc wire.Encoding, m Mark, port uint16) error {
	if err := checkIPv4(packet); err != nil {
		return err
	}
	if field := fragmentField(packet); field&fragmentMask != 0 {
		return fmt.Errorf("fragment field %#04x: %w", field, ErrFragment)
	}
	if _, _, was, err := extract(packet, port); err == nil {
		return fmt.Errorf("%v mark of protocol %d: %w", was, packet[9], ErrMarked)
	}
	if total := len(packet) + m.overhead(enc); total > math.MaxUint16 {
		return fmt.Errorf("total of %d bytes: %w", total, ErrTooLong)
	}
	return nil
}

// checkExtractIPv4 checks that an IPv4 packet is sound and may carry a mark.
func checkExtractIPv4(packet []byte) error {
	if err := checkIPv4(packet); err != nil {
		return err
	}
	if field := fragmentField(packet); field&fragmentMask != 0 {
		return fmt.Errorf("fragment field %#04x: %w", field, ErrNotMark)
	}
	if size := headerSize(packet); size != ipv4Size {
		return fmt.Errorf("header of %d bytes: %w", size, ErrNotMark)
	}
	return nil
}

// checkProtocol returns an error unless the packet's protocol is want.
func checkProtocol(packet []byte, want uint8) error {
	if packet[9] != want {
		return fmt.Errorf("protocol %d: %w", packet[9], ErrNotMark)
	}
	return nil
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

// decapsulated is the ECN field after decapsulation, by the ECN fields of the inner and
// the outer header (RFC 6040, figure 4; what it drops keeps its field).
var decapsulated = [4][4]byte{
	{0, 0, 0, 0},
	{1, 1, 1, 3},
	{2, 1, 2, 3},
	{3, 3, 3, 3},
}

// follow gives a decapsulated packet what routers wrote into the outer header, which
// began as a copy of its own: ECN, DSCP (RFC 2983, uniform model) and TTL.
func follow(packet, outer []byte) {
	packet[1] = outer[1]&^3 | decapsulated[packet[1]&3][outer[1]&3]
	packet[8] = min(packet[8], outer[8])
	binary.BigEndian.PutUint16(packet[10:], headerChecksum(packet))
}

// seal sets protocol, total length and checksum of an IPv4 packet.
func seal(packet []byte, protocol uint8) {
	packet[9] = protocol
	binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)))
	binary.BigEndian.PutUint16(packet[10:], headerChecksum(packet))
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
