package codec

import (
	"encoding/binary"
	"fmt"
	"math"

	"pillion.dev/wire"
)

// The experimental options of TCP (RFC 4727): a mark, and room for one that was not written.
const (
	TCPOptionKind = 253
	TCPRoomKind   = 254
)

// TCP header and its options (RFC 9293).
const (
	tcpSize    = 20
	tcpSizeMax = 60
	optionEnd  = 0
	optionNOP  = 1
)

func init() { layouts[wire.TCPOption] = layout{insertTCPOption, extractTCPOption} }

// insertTCPOption appends the mark to the options of a TCP segment. The checksum follows,
// as the kernel that builds the segment computes it over the mark.
func insertTCPOption(packet []byte, m Mark, _ uint16) ([]byte, error) {
	at, end, err := tcpHeader(packet)
	if err != nil {
		return nil, err
	}
	size := int(m.experimentSize())
	if options := packet[at+tcpSize : end]; end-at+size > tcpSizeMax || !leadTo(options, len(options)) {
		return nil, fmt.Errorf("TCP options %x: %w", options, ErrOptionRoom)
	}
	if tcpOption(packet[at:end]) != nil {
		return nil, fmt.Errorf("TCP header of %d bytes: %w", end-at, ErrMarked)
	}
	if total := len(packet) + size; total > math.MaxUint16 {
		return nil, fmt.Errorf("total of %d bytes: %w", total, ErrTooLong)
	}
	mark, err := m.appendExperiment(nil)
	if err != nil {
		return nil, err
	}
	mark[0] = TCPOptionKind
	marked := make([]byte, 0, len(packet)+size)
	marked = append(marked, packet[:end]...)
	marked = append(marked, mark...)
	marked = append(marked, packet[end:]...)
	marked[at+12] += uint8(size / 4 << 4)
	addTCPChecksum(marked[at:], tcpOptionSum(mark))
	setLength(marked)
	return marked, nil
}

// extractTCPOption takes the last option of a TCP segment out, if it is a mark.
func extractTCPOption(packet []byte, _ uint16) (original []byte, m Mark, err error) {
	at, end, err := tcpHeader(packet)
	if err != nil {
		return nil, Mark{}, fmt.Errorf("%w: %w", ErrNotMark, err)
	}
	mark := tcpOption(packet[at:end])
	if mark == nil {
		return nil, Mark{}, fmt.Errorf("options %x: %w", packet[at+tcpSize:end], ErrNotMark)
	}
	if err := m.setExperiment(mark); err != nil {
		return nil, Mark{}, err
	}
	original = make([]byte, 0, len(packet)-len(mark))
	original = append(original, packet[:end-len(mark)]...)
	original = append(original, packet[end:]...)
	original[at+12] -= uint8(len(mark) / 4 << 4)
	addTCPChecksum(original[at:], math.MaxUint16-tcpOptionSum(mark))
	setLength(original)
	return original, m, nil
}

// ReserveTCPOption returns a TCP segment with room for a mark, as a kernel builds it.
func ReserveTCPOption(packet []byte) ([]byte, error) {
	return reserve(packet, Mark{Modules: wire.Loss, Sequence: 1})
}

// ReserveTaggedTCPOption is the same for a mark with a tag.
func ReserveTaggedTCPOption(packet []byte) ([]byte, error) {
	return reserve(packet, Mark{Modules: wire.Loss, Sequence: 1, Tagged: true})
}

// reserve makes room for a mark with as many bytes as m.
func reserve(packet []byte, m Mark) ([]byte, error) {
	marked, err := Insert(packet, wire.TCPOption, m, 0)
	if err != nil {
		return nil, err
	}
	at, end, err := tcpHeader(marked)
	if err != nil {
		return nil, err
	}
	room := tcpOption(marked[at:end])
	was := tcpOptionSum(room)
	room[0] = TCPRoomKind
	clear(room[4:])
	addTCPChecksum(marked[at:], sum16(uint32(math.MaxUint16-was), binary.BigEndian.AppendUint16(nil, tcpOptionSum(room))))
	return marked, nil
}

// tcpOption returns the last option of a TCP header if it is a mark, nil otherwise.
func tcpOption(header []byte) []byte {
	options := header[tcpSize:]
	for _, size := range []int{taggedExperimentLength, experimentLength} {
		last := len(options) - size
		if last < 0 || !leadTo(options, last) {
			continue
		}
		if o := options[last:]; o[0] == TCPOptionKind && int(o[1]) == size && isExID(o[2:]) {
			return o
		}
	}
	return nil
}

// leadTo reports whether an option may begin at an offset: each one before it says where
// the next begins.
func leadTo(options []byte, place int) bool {
	at := 0
	for at < place {
		switch {
		case options[at] == optionNOP:
			at++
		case options[at] == optionEnd || at+1 == len(options) || options[at+1] < 2:
			return false
		default:
			at += int(options[at+1])
		}
	}
	return at == place
}

// tcpHeader returns where the TCP header begins, which must follow the fixed IP header, and
// where its options end. A checksum that no sender computes is refused.
func tcpHeader(packet []byte) (at, end int, err error) {
	if at, err = transportPlace(packet, protocolTCP, tcpSize); err != nil {
		return 0, 0, err
	}
	size := int(packet[at+12]>>4) * 4
	if size < tcpSize || at+size > len(packet) {
		return 0, 0, fmt.Errorf("TCP header of %d bytes of %d: %w", size, len(packet)-at, ErrLength)
	}
	if check := binary.BigEndian.Uint16(packet[at+16:]); check == math.MaxUint16 {
		return 0, 0, fmt.Errorf("TCP checksum %#04x: %w", check, ErrChecksum)
	}
	return at, at + size, nil
}

// tcpOptionSum is what the option adds to the sum of a segment: its bytes, its length in the
// pseudo-header and in the data offset.
func tcpOptionSum(option []byte) uint16 {
	size := uint32(len(option))
	return sum16(size+size/4<<12, option)
}

// addTCPChecksum adds to the sum of a segment, in one's complement.
func addTCPChecksum(segment []byte, sum uint16) {
	was := ^binary.BigEndian.Uint16(segment[16:])
	binary.BigEndian.PutUint16(segment[16:], ^sum16(uint32(was)+uint32(sum), nil))
}
