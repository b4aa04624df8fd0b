package codec

import (
	"encoding/binary"
	"fmt"
)

// In-situ OAM (RFC 9197, RFC 9486): the types of its options in IPv6 and what they can hold.
const (
	OptionIOAM     = 0x11 // in a Destination Options header, or read only in a Hop-by-Hop header
	OptionIOAMHops = 0x31 // in a Hop-by-Hop header: routers may change it

	ioamTrace = 0 // pre-allocated
	ioamE2E   = 3
	ioamDEX   = 4

	ioamHead = 4 // reserved, type and namespace: of an option's data
)

// Fields of an edge-to-edge option, in the order in which they follow.
const (
	E2ESequence64 = 0x8000
	E2ESequence32 = 0x4000
	E2ESeconds    = 0x2000
	E2EFraction   = 0x1000
)

// An E2E is an edge-to-edge option.
type E2E struct {
	Namespace uint16
	Fields    uint16 // E2ESequence64 ...
	Number    uint64 // 32 bits with E2ESequence32
	Seconds   uint32
	Fraction  uint32
}

func appendIOAM(b []byte, option uint8, length int, kind uint8, namespace uint16) []byte {
	return binary.BigEndian.AppendUint16(append(b, option, uint8(ioamHead+length), 0, kind), namespace)
}

// size returns the bytes of the fields.
func (e E2E) size() (size int) {
	for _, f := range []struct {
		field uint16
		bytes int
	}{{E2ESequence64, 8}, {E2ESequence32, 4}, {E2ESeconds, 4}, {E2EFraction, 4}} {
		if e.Fields&f.field != 0 {
			size += f.bytes
		}
	}
	return size
}

// append appends the option.
func (e E2E) append(b []byte) []byte {
	b = appendIOAM(b, OptionIOAM, 2+e.size(), ioamE2E, e.Namespace)
	b = binary.BigEndian.AppendUint16(b, e.Fields)
	if e.Fields&E2ESequence64 != 0 {
		b = binary.BigEndian.AppendUint64(b, e.Number)
	}
	if e.Fields&E2ESequence32 != 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(e.Number))
	}
	if e.Fields&E2ESeconds != 0 {
		b = binary.BigEndian.AppendUint32(b, e.Seconds)
	}
	if e.Fields&E2EFraction != 0 {
		b = binary.BigEndian.AppendUint32(b, e.Fraction)
	}
	return b
}

// parseE2E reads what follows the head of the option. Of two numbers the one of 32 bits counts
// where it comes second, as it is the lower half of the other.
func parseE2E(namespace uint16, b []byte) (E2E, error) {
	if len(b) < 2 {
		return E2E{}, fmt.Errorf("edge-to-edge option of %d bytes: %w", len(b), ErrMalformed)
	}
	e := E2E{Namespace: namespace, Fields: binary.BigEndian.Uint16(b)}
	b = b[2:]
	if e.Fields&^0xf000 != 0 || e.Fields&(E2ESequence64|E2ESequence32) == E2ESequence64|E2ESequence32 {
		return E2E{}, fmt.Errorf("edge-to-edge fields %#04x: %w", e.Fields, ErrNotMark)
	}
	if len(b) != e.size() {
		return E2E{}, fmt.Errorf("%d bytes of edge-to-edge fields %#04x: %w", len(b), e.Fields, ErrMalformed)
	}
	if e.Fields&E2ESequence64 != 0 {
		e.Number, b = binary.BigEndian.Uint64(b), b[8:]
	}
	if e.Fields&E2ESequence32 != 0 {
		e.Number, b = uint64(binary.BigEndian.Uint32(b)), b[4:]
	}
	if e.Fields&E2ESeconds != 0 {
		e.Seconds, b = binary.BigEndian.Uint32(b), b[4:]
	}
	if e.Fields&E2EFraction != 0 {
		e.Fraction = binary.BigEndian.Uint32(b)
	}
	return e, nil
}

// What a direct export option has beside its trace type.
const (
	DEXFlow   = 0x80
	DEXNumber = 0x40
)

// A DEX is a direct export option (RFC 9326).
type DEX struct {
	Namespace  uint16
	Flags      uint8
	Extensions uint8  // DEXFlow, DEXNumber
	Type       uint32 // 24 bits, as of a trace
	Flow       uint32
	Number     uint32
}

// append appends the option.
func (d DEX) append(b []byte) []byte {
	length := 8
	for _, field := range []uint8{DEXFlow, DEXNumber} {
		if d.Extensions&field != 0 {
			length += 4
		}
	}
	b = appendIOAM(b, OptionIOAM, length-2, ioamDEX, d.Namespace)
	b = append(b, d.Flags, d.Extensions)
	b = binary.BigEndian.AppendUint32(b, d.Type<<8)
	if d.Extensions&DEXFlow != 0 {
		b = binary.BigEndian.AppendUint32(b, d.Flow)
	}
	if d.Extensions&DEXNumber != 0 {
		b = binary.BigEndian.AppendUint32(b, d.Number)
	}
	return b
}

// parseDEX reads what follows the head of the option.
func parseDEX(namespace uint16, b []byte) (DEX, error) {
	if len(b) < 6 {
		return DEX{}, fmt.Errorf("direct export option of %d bytes: %w", len(b), ErrMalformed)
	}
	d := DEX{Namespace: namespace, Flags: b[0], Extensions: b[1], Type: binary.BigEndian.Uint32(b[2:]) >> 8}
	if d.Extensions&^(DEXFlow|DEXNumber) != 0 {
		return DEX{}, fmt.Errorf("direct export with extensions %#02x: %w", d.Extensions, ErrNotMark)
	}
	b = b[6:]
	if d.Extensions&DEXFlow != 0 && len(b) >= 4 {
		d.Flow, b = binary.BigEndian.Uint32(b), b[4:]
	} else if d.Extensions&DEXFlow != 0 {
		return DEX{}, fmt.Errorf("direct export without flow: %w", ErrMalformed)
	}
	if d.Extensions&DEXNumber != 0 && len(b) >= 4 {
		d.Number, b = binary.BigEndian.Uint32(b), b[4:]
	} else if d.Extensions&DEXNumber != 0 {
		return DEX{}, fmt.Errorf("direct export without number: %w", ErrMalformed)
	}
	if len(b) != 0 {
		return DEX{}, fmt.Errorf("%d more bytes of direct export: %w", len(b), ErrMalformed)
	}
	return d, nil
}
