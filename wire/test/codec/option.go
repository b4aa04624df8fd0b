package codec

import (
	"encoding/binary"
	"fmt"

	"pillion.dev/wire"
)

// IPv6 option types: RFC 4727 experimental, "skip if unknown".
const (
	OptionDelay = 0x3e // may change en route: an edge may fill Received
	OptionLoss  = 0x1e
	optionPadN  = 0x01
)

// Padding to a multiple of 8 bytes, after delay and after delay and loss.
const (
	padDelay = "\x01\x02\x00\x00"
	padBoth  = "\x01\x04\x00\x00\x00\x00"

	// A loss option with a byte of flags, and less padding.
	sparseLength = lossLength + 1
	padSparse    = "\x01\x03\x00\x00\x00"
)

// AppendOptions appends to b an IPv6 Destination Options header (RFC 8200,
// section 4.6) that carries m and is followed by a header of type next: 24
// bytes for delay, 8 for loss, 32 for both. It appends nothing if m carries
// no module.
func AppendOptions(b []byte, next uint8, m Mark) []byte {
	size := optionsSize(m.Modules)
	if size == 0 {
		return b
	}
	b = append(b, next, uint8(size/8-1))
	if m.Modules&wire.Delay != 0 {
		b = m.appendDelay(append(b, OptionDelay, delayLength))
	}
	if m.Sparse {
		return append(append(m.appendLoss(append(b, OptionLoss, sparseLength)), typeSparse), padSparse...)
	}
	if m.Modules&wire.Loss != 0 {
		b = m.appendLoss(append(b, OptionLoss, lossLength))
	}
	switch m.Modules {
	case wire.Delay:
		b = append(b, padDelay...)
	case wire.Delay | wire.Loss:
		b = append(b, padBoth...)
	}
	return b
}

// ParseOptions reads the IPv6 Destination Options header at the start of b and
// returns its mark, the type of the header that follows and its own size in
// bytes. The error is ErrNotMark if the first option is not one of ours,
// ErrMalformed if it is but the header is not one that AppendOptions writes,
// ErrShort if b ends too early to tell.
func ParseOptions(b []byte) (m Mark, next uint8, n int, err error) {
	if len(b) < 8 {
		return Mark{}, 0, 0, fmt.Errorf("parse options: %d bytes: %w", len(b), ErrShort)
	}
	kind, size := b[2], 8*(int(b[1])+1)
	if kind != OptionDelay && kind != OptionLoss {
		return Mark{}, 0, 0, fmt.Errorf("parse options: first option %#02x: %w", kind, ErrNotMark)
	}
	set := optionsModules(kind, size)
	if set == 0 {
		return Mark{}, 0, 0, fmt.Errorf("parse options: %d-byte header with option %#02x: %w", size, kind, ErrMalformed)
	}
	if len(b) < size {
		return Mark{}, 0, 0, fmt.Errorf("parse options: %d bytes of %d: %w", len(b), size, ErrShort)
	}
	m, ok := readOptions(b[2:size], set)
	if !ok {
		return Mark{}, 0, 0, fmt.Errorf("parse options: options %x: %w", b[2:size], ErrMalformed)
	}
	return m, b[0], size, nil
}

// optionsModules tells a header's modules from its first option and its size,
// zero if there is no such layout.
func optionsModules(kind uint8, size int) wire.Module {
	for _, set := range []wire.Module{wire.Delay, wire.Loss, wire.Delay | wire.Loss} {
		delayFirst := set&wire.Delay != 0
		if size == optionsSize(set) && delayFirst == (kind == OptionDelay) {
			return set
		}
	}
	return 0
}

// readOptions reads the options of a header that must carry exactly set.
func readOptions(b []byte, set wire.Module) (m Mark, ok bool) {
	if set&wire.Delay != 0 {
		if binary.BigEndian.Uint16(b) != OptionDelay<<8|delayLength {
			return Mark{}, false
		}
		m.setDelay(b[2:])
		b = b[2+delayLength:]
	}
	if set == wire.Delay|wire.Loss && binary.BigEndian.Uint16(b) == OptionLoss<<8|sparseLength {
		m.setLoss(b[2:])
		m.Sparse = true
		return m, b[2+lossLength] == typeSparse && string(b[2+sparseLength:]) == padSparse
	}
	if set&wire.Loss != 0 {
		if binary.BigEndian.Uint16(b) != OptionLoss<<8|lossLength {
			return Mark{}, false
		}
		m.setLoss(b[2:])
		b = b[2+lossLength:]
	}
	switch set {
	case wire.Delay:
		return m, string(b) == padDelay
	case wire.Delay | wire.Loss:
		return m, string(b) == padBoth
	}
	return m, len(b) == 0
}

// optionsSize returns the size of the whole header, zero for no module.
func optionsSize(m wire.Module) int { return wire.Native.Overhead(m) }
