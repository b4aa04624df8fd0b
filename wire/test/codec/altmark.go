package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"pillion.dev/wire"
)

func init() { layouts[wire.AltMark] = layout{insertAltMark, extractAltMark} }

// OptionAltMark is Alternate Marking (RFC 9343).
const (
	OptionAltMark = 0x12
	altMarkLength = 4
)

// An AltMark is what the option says.
type AltMark struct {
	Flow     uint32 // FlowMonID, 20 bits
	Loss     bool   // L: alternates from block to block
	Delay    bool   // D: a packet whose delay is measured
	Reserved uint16 // 10 bits
}

// Word returns the data of the option, which a tag covers as the number.
func (a AltMark) Word() uint32 {
	word := a.Flow<<12 | uint32(a.Reserved&0x3ff)
	if a.Loss {
		word |= 1 << 11
	}
	if a.Delay {
		word |= 1 << 10
	}
	return word
}

// append appends the option.
func (a AltMark) append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(append(b, OptionAltMark, altMarkLength), a.Word())
}

// parseAltMark reads the data of the option.
func parseAltMark(data []byte) (AltMark, error) {
	if len(data) != altMarkLength {
		return AltMark{}, fmt.Errorf("option of Alternate Marking of %d bytes: %w", len(data), ErrMalformed)
	}
	word := binary.BigEndian.Uint32(data)
	return AltMark{word >> 12, word&(1<<11) != 0, word&(1<<10) != 0, uint16(word & 0x3ff)}, nil
}

// checkIn returns an error unless a mark in an encoding can carry what m does.
func (m Mark) checkIn(e wire.Encoding) error {
	if !HasBlocks(e) {
		if m.Block != (AltMark{}) {
			return fmt.Errorf("block: %w", ErrEncoding)
		}
		return m.check()
	}
	if (m != Mark{Block: m.Block, Tagged: m.Tagged, Tag: m.Tag}) {
		return fmt.Errorf("more than a block: %w", ErrEncoding)
	}
	if m.Block.Flow >= 1<<20 || m.Block.Reserved != 0 {
		return fmt.Errorf("flow %#x, reserved bits %#x: %w", m.Block.Flow, m.Block.Reserved, ErrEncoding)
	}
	return nil
}

// insertAltMark writes m into an IPv6 packet.
func insertAltMark(packet []byte, m Mark, _ uint16) ([]byte, error) {
	return insertOptions(packet, func(b []byte, next uint8) []byte {
		return AppendHeader(b, next, m.tagHeader(Header{AltMark: &m.Block}))
	})
}

// extractAltMark takes the mark out of an IPv6 packet.
func extractAltMark(packet []byte, _ uint16) (original []byte, m Mark, err error) {
	original, err = extractOptions(packet, func(b []byte) (next uint8, n int, err error) {
		h, next, n, err := ParseHeader(b)
		if err != nil {
			return 0, 0, err
		}
		if h.AltMark == nil {
			return 0, 0, fmt.Errorf("no option of Alternate Marking: %w", ErrNotMark)
		}
		m = Mark{Block: *h.AltMark}
		for _, o := range h.Modules {
			if o.ID == ModuleTag {
				m.setTag(o.Data)
			}
		}
		if err := m.checkIn(wire.AltMark); err != nil {
			return 0, 0, fmt.Errorf("%w: %w", ErrForeign, err)
		}
		if !bytes.Equal(b[:n], AppendHeader(nil, next, m.tagHeader(Header{AltMark: &m.Block}))) {
			return 0, 0, fmt.Errorf("header %x: %w", b[:n], ErrForeign)
		}
		return next, n, nil
	})
	return original, m, err
}
