package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Bits of a trace type, from the most significant of 24: what a router writes.
const (
	TraceHopLimit = 1 << 23 // hop limit and node id
	TraceSeconds  = 1 << 21
	TraceFraction = 1 << 20

	traceWide   = 1<<15 | 1<<14 | 1<<13 // fields of 8 bytes: bits 8 to 10
	traceOpaque = 1<<1 | 1              // of variable length, and reserved
)

// Flags of a trace.
const TraceOverflow = 8 // a router found no space

// A Trace is a pre-allocated trace option. Routers fill the space from its end.
type Trace struct {
	Namespace uint16
	Type      uint32     // 24 bits: TraceHopLimit ...
	Flags     uint8      // 4 bits
	Left      int        // words that are free
	Entries   [][]uint32 // of routers in their order on the path; words in the order of the type
}

// entryWords returns the number of words that a router writes for a trace type, zero for one
// that has data of variable length.
func entryWords(kind uint32) (words int) {
	if kind&traceOpaque != 0 {
		return 0
	}
	for bit := uint32(1); bit < 1<<24; bit <<= 1 {
		if kind&bit != 0 {
			words++
		}
		if kind&bit&traceWide != 0 {
			words++
		}
	}
	return words
}

// size returns the bytes that follow the head of the option.
func (t Trace) size() int { return 6 + 4*(t.Left+len(t.Entries)*entryWords(t.Type)) }

// append appends the option.
func (t Trace) append(b []byte) []byte {
	b = appendIOAM(b, OptionIOAMHops, t.size(), ioamTrace, t.Namespace)
	b = binary.BigEndian.AppendUint16(b, uint16(entryWords(t.Type)<<11|int(t.Flags)<<7|t.Left))
	b = binary.BigEndian.AppendUint32(b, t.Type<<8)
	b = append(b, make([]byte, 4*t.Left)...)
	for _, entry := range slices.Backward(t.Entries) {
		for _, word := range entry {
			b = binary.BigEndian.AppendUint32(b, word)
		}
	}
	return b
}

// errUnreadable says that a trace is laid out as one, but its entries cannot be read.
var errUnreadable = errors.New("entries of an unknown layout")

// parseTrace reads what follows the head of the option.
func parseTrace(namespace uint16, b []byte) (Trace, error) {
	if len(b) < 6 {
		return Trace{}, fmt.Errorf("trace option of %d bytes: %w", len(b), ErrMalformed)
	}
	lengths := binary.BigEndian.Uint16(b)
	t := Trace{
		Namespace: namespace, Flags: uint8(lengths >> 7 & 0xf), Left: int(lengths & 0x7f),
		Type: binary.BigEndian.Uint32(b[2:]) >> 8,
	}
	words, b := int(lengths>>11), b[6:]
	if words == 0 || 4*t.Left > len(b) || (len(b)/4-t.Left)%words != 0 {
		return Trace{}, fmt.Errorf("%d bytes of trace, entries of %d words, %d words left: %w", len(b), words, t.Left, ErrMalformed)
	}
	if entryWords(t.Type) != words || len(b)%4 != 0 {
		return Trace{}, fmt.Errorf("entries of %d words for trace type %06x: %w", words, t.Type, errUnreadable)
	}
	for b = b[4*t.Left:]; len(b) > 0; b = b[4*words:] {
		entry := make([]uint32, words)
		for i := range entry {
			entry[i] = binary.BigEndian.Uint32(b[4*i:])
		}
		t.Entries = append(t.Entries, entry)
	}
	slices.Reverse(t.Entries)
	return t, nil
}
