package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"pillion.dev/wire"
)

// The trace that Pillion writes: space for so many routers, which Linux fills with three words.
const (
	traceNodes = 8
	traceType  = TraceHopLimit | TraceSeconds | TraceFraction

	// Where things lie in a header: the word with entry length, flags and free words, and the space.
	traceLengthsAt, traceSpaceAt = 10, 16
	traceSpace                   = traceNodes * 12
)

func init() { layouts[wire.IOAMTrace] = layout{insertIOAMTrace, extractIOAMTrace} }

// appendTrace appends the Hop-by-Hop header that carries m and an empty trace.
func (m Mark) appendTrace(b []byte, next uint8) ([]byte, error) {
	e, err := m.edgeToEdge()
	if err != nil {
		return nil, err
	}
	return AppendHeader(b, next, m.tagHeader(Header{Trace: &Trace{Type: traceType, Left: traceSpace / 4}, E2E: e})), nil
}

// insertIOAMTrace writes m behind the fixed header of an IPv6 packet without a Hop-by-Hop header.
func insertIOAMTrace(packet []byte, m Mark, _ uint16) ([]byte, error) {
	return insertHeader(packet, nextHopByHop, m.appendTrace)
}

// extractIOAMTrace takes the mark, and what routers wrote before it, out of an IPv6 packet.
func extractIOAMTrace(packet []byte, _ uint16) (original []byte, m Mark, err error) {
	at, _, err := optionsPlace(packet)
	if err != nil {
		return nil, Mark{}, err
	}
	if at == ipv6Size {
		return nil, Mark{}, fmt.Errorf("no Hop-by-Hop header: %w", ErrNotMark)
	}
	header := packet[ipv6Size:at]
	if header[2] > optionPadN || header[3] != 0 || header[4] != OptionIOAMHops {
		return nil, Mark{}, fmt.Errorf("Hop-by-Hop header that begins with another option: %w", ErrNotMark)
	}
	h, next, _, err := ParseHeader(header)
	if err != nil {
		return nil, Mark{}, err
	}
	if h.Trace == nil && h.E2E != nil {
		return nil, Mark{}, fmt.Errorf("trace that cannot be read: %w", ErrForeign)
	}
	if h.Trace == nil || h.E2E == nil {
		return nil, Mark{}, fmt.Errorf("no trace, or no edge-to-edge option: %w", ErrNotMark)
	}
	if m, err = h.mark(); err != nil {
		return nil, Mark{}, err
	}
	own, err := m.appendTrace(nil, next)
	if err != nil {
		return nil, Mark{}, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	if len(own) == len(header) { // routers write into the space, and say how much of it is left
		copy(own[traceLengthsAt:], header[traceLengthsAt:traceLengthsAt+2])
		copy(own[traceSpaceAt:], header[traceSpaceAt:traceSpaceAt+traceSpace])
	}
	if !bytes.Equal(own, header) {
		return nil, Mark{}, fmt.Errorf("header %x: %w", header, ErrForeign)
	}
	original = append(slices.Clone(packet[:ipv6Size]), packet[at:]...)
	original[6] = next
	binary.BigEndian.PutUint16(original[4:], uint16(len(original)-ipv6Size))
	return original, m, nil
}
