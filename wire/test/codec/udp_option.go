package codec

import (
	"encoding/binary"
	"fmt"
	"math"

	"pillion.dev/wire"
)

// The experimental option of UDP (RFC 9868) and its experiment identifiers: ExIDSparse is
// for marks with Sparse.
const (
	OptionKind = 127
	ExID       = 0x504c
	ExIDSparse = 0x504d
	// ExIDAggregate, plus the fields, is for marks with Aggregate.
	ExIDAggregate = 0x5060

	experimentLength       = 12
	taggedExperimentLength = experimentLength + tagLength
	surplusChecksum        = 2 // bytes before the option
)

func init() { layouts[wire.UDPOption] = layout{insertUDPOption, extractUDPOption} }

// insertUDPOption appends the surplus area to a UDP datagram that has none.
func insertUDPOption(packet []byte, m Mark, _ uint16) ([]byte, error) {
	at, err := transportPlace(packet, protocolUDP, udpSize)
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
	marked := append(make([]byte, 0, len(packet)+m.overhead(wire.UDPOption)+1), packet...)
	if (len(packet)-at)%2 != 0 {
		marked = append(marked, 0)
	}
	area := len(marked) + m.overhead(wire.UDPOption) - len(packet)
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
	at, err := transportPlace(packet, protocolUDP, udpSize)
	if err != nil {
		return nil, Mark{}, fmt.Errorf("%w: %w", ErrNotMark, err)
	}
	length := int(binary.BigEndian.Uint16(packet[at+4:]))
	area := len(packet) - at - length
	size := area - length%2
	if plain := size - surplusChecksum; length < udpSize || plain != experimentLength && plain != taggedExperimentLength {
		return nil, Mark{}, fmt.Errorf("surplus area of %d bytes: %w", area, ErrNotMark)
	}
	option := packet[len(packet)-size:]
	if option[2] != OptionKind || !isExID(option[4:]) {
		return nil, Mark{}, fmt.Errorf("option %x: %w", option[2:6], ErrNotMark)
	}
	if pad := packet[at+length]; area > size && pad != 0 {
		return nil, Mark{}, fmt.Errorf("padding %#02x: %w", pad, ErrMalformed)
	}
	if sum := sum16(uint32(area), option); sum != math.MaxUint16 || option[0]|option[1] == 0 {
		return nil, Mark{}, fmt.Errorf("checksum %x of options, sum %#04x: %w", option[:2], sum, ErrMalformed)
	}
	if err := m.setExperiment(option[surplusChecksum:]); err != nil {
		return nil, Mark{}, err
	}
	original = append([]byte(nil), packet[:at+length]...)
	setLength(original)
	return original, m, nil
}
