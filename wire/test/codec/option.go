package codec

import (
	"fmt"
	"slices"

	"pillion.dev/wire"
)

// IPv6 option types: RFC 4727 experimental, "skip if unknown".
const (
	OptionDelay = 0x3e // may change en route: an edge may fill Received
	OptionLoss  = 0x1e
)

// An optionLayout is the content of a header for marks of one kind: the delay option if they
// carry Delay, the loss option if they carry Loss, and padding to a multiple of 8 bytes.
type optionLayout struct {
	modules        wire.Module
	sparse, tagged bool
	lossLength     uint8 // of the loss option
	padding        string
}

var optionLayouts = []optionLayout{
	{modules: wire.Delay, padding: "\x01\x02\x00\x00"},
	{modules: wire.Loss, lossLength: 4},
	{modules: wire.Delay | wire.Loss, lossLength: 4, padding: "\x01\x04\x00\x00\x00\x00"},
	{modules: wire.Delay | wire.Loss, sparse: true, lossLength: 5, padding: "\x01\x03\x00\x00\x00"},
	{modules: wire.Loss, tagged: true, lossLength: 8, padding: "\x01\x02\x00\x00"},
	{modules: wire.Delay | wire.Loss, tagged: true, lossLength: 8, padding: "\x01\x00"},
	{modules: wire.Delay | wire.Loss, sparse: true, tagged: true, lossLength: 9, padding: "\x00"},
}

// optionHead is the size of an option's type and length, and that of a header's head.
const optionHead = 2

// size returns the size of the whole header.
func (l optionLayout) size() int {
	size := optionHead + len(l.padding)
	if l.modules&wire.Delay != 0 {
		size += optionHead + delayLength
	}
	if l.modules&wire.Loss != 0 {
		size += optionHead + int(l.lossLength)
	}
	return size
}

// first returns the type of the first option.
func (l optionLayout) first() uint8 {
	if l.modules&wire.Delay != 0 {
		return OptionDelay
	}
	return OptionLoss
}

// AppendOptions appends to b an IPv6 Destination Options header (RFC 8200,
// section 4.6) that carries m and is followed by a header of type next: 24
// bytes for delay, 8 for loss, 32 for both; 16 for loss with a tag, and 32 for
// both with a tag. It appends nothing if no mark carries what m does.
func AppendOptions(b []byte, next uint8, m Mark) []byte {
	for _, l := range optionLayouts {
		if l.modules == m.Modules && l.sparse == m.Sparse && l.tagged == m.Tagged {
			return l.append(append(b, next, uint8(l.size()/8-1)), m)
		}
	}
	return b
}

// append appends the options of m and the padding.
func (l optionLayout) append(b []byte, m Mark) []byte {
	if l.modules&wire.Delay != 0 {
		b = m.appendDelay(append(b, OptionDelay, delayLength))
	}
	if l.modules&wire.Loss != 0 {
		b = m.appendLoss(append(b, OptionLoss, l.lossLength))
	}
	if l.sparse {
		b = append(b, typeSparse)
	}
	return append(m.appendTag(b), l.padding...)
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
	fitting := slices.DeleteFunc(slices.Clone(optionLayouts), func(l optionLayout) bool {
		return l.first() != kind || l.size() != size
	})
	if len(fitting) == 0 {
		return Mark{}, 0, 0, fmt.Errorf("parse options: %d-byte header with option %#02x: %w", size, kind, ErrMalformed)
	}
	if len(b) < size {
		return Mark{}, 0, 0, fmt.Errorf("parse options: %d bytes of %d: %w", len(b), size, ErrShort)
	}
	for _, l := range fitting {
		if m, ok := l.read(b[optionHead:size]); ok {
			return m, b[0], size, nil
		}
	}
	return Mark{}, 0, 0, fmt.Errorf("parse options: options %x: %w", b[optionHead:size], ErrMalformed)
}

// read reads the options of a header, as many bytes as the layout has.
func (l optionLayout) read(b []byte) (m Mark, ok bool) {
	if l.modules&wire.Delay != 0 {
		if b[0] != OptionDelay || b[1] != delayLength {
			return Mark{}, false
		}
		m.setDelay(b[optionHead:])
		b = b[optionHead+delayLength:]
	}
	if l.modules&wire.Loss != 0 {
		if b[0] != OptionLoss || b[1] != l.lossLength {
			return Mark{}, false
		}
		m.setLoss(b[optionHead:])
		b = b[optionHead+lossLength:]
	}
	if l.sparse {
		if b[0] != typeSparse {
			return Mark{}, false
		}
		m.Sparse = true
		b = b[1:]
	}
	if l.tagged {
		m.setTag(b)
		b = b[tagLength:]
	}
	return m, string(b) == l.padding
}
