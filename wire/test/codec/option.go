package codec

import (
	"fmt"
	"slices"

	"pillion.dev/wire"
)

// IPv6 option types: RFC 4727 experimental, "skip if unknown".
const (
	OptionDelay = 0x3e // may change en route: a waypoint may fill Received
	OptionLoss  = 0x1e
)

// An optionLayout is the content of a header for marks of one kind: the delay option if they
// carry Delay, the loss option if they carry Loss, and padding to a multiple of 8 bytes.
type optionLayout struct {
	modules        wire.Module
	sparse, tagged bool
	aggregate      bool  // in flags, as sparse
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
	{modules: wire.Loss, aggregate: true, lossLength: 5, padding: "\x01\x05\x00\x00\x00\x00\x00"},
	{modules: wire.Delay | wire.Loss, aggregate: true, lossLength: 5, padding: "\x01\x03\x00\x00\x00"},
	{modules: wire.Loss, aggregate: true, tagged: true, lossLength: 9, padding: "\x01\x01\x00"},
	{modules: wire.Delay | wire.Loss, aggregate: true, tagged: true, lossLength: 9, padding: "\x00"},
}

// optionHead is the size of an option's type and length, and of a header's head.
const optionHead = 2

// layoutOf returns the layout of marks that carry what m does.
func layoutOf(m Mark) (optionLayout, bool) {
	i := slices.IndexFunc(optionLayouts, func(l optionLayout) bool {
		aggregate := m.Aggregate != 0 && m.Modules&wire.Loss != 0
		return l.modules == m.Modules && l.sparse == m.Sparse && l.tagged == m.Tagged && l.aggregate == aggregate
	})
	if i < 0 {
		return optionLayout{}, false
	}
	return optionLayouts[i], true
}

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
	if l, ok := layoutOf(m); ok {
		return l.append(append(b, next, uint8(l.sizeWith(m.Options)/8-1)), m)
	}
	return b
}

// append appends the options of m and the padding.
func (l optionLayout) append(b []byte, m Mark) []byte {
	b = l.appendOptions(b, m)
	if m.Options == "" {
		return append(b, l.padding...)
	}
	return append(append(b, m.Options...), padding(l.used()+len(m.Options))...)
}

// used is the size of the header up to its padding.
func (l optionLayout) used() int { return l.size() - len(l.padding) }

// sizeWith is the size of the header with options of modules.
func (l optionLayout) sizeWith(options string) int {
	if options == "" {
		return l.size()
	}
	return (l.used() + len(options) + 7) &^ 7
}

// appendOptions appends the options of m.
func (l optionLayout) appendOptions(b []byte, m Mark) []byte {
	if l.modules&wire.Delay != 0 {
		b = m.appendDelay(append(b, OptionDelay, delayLength))
	}
	if l.modules&wire.Loss != 0 {
		b = m.appendLoss(append(b, OptionLoss, l.lossLength))
	}
	if l.sparse {
		b = append(b, typeSparse)
	}
	if l.aggregate {
		b = append(b, flagAggregate|m.Aggregate)
	}
	return m.appendTag(b)
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
		return l.first() != kind || l.used() > size || l.size()+optionsMax < size
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
		b = b[optionHead:]
		if !l.readLoss(&m, b) {
			return Mark{}, false
		}
		b = b[l.lossLength:]
	}
	if string(b) == l.padding {
		return m, true
	}
	m.Options = moduleOptions(b)
	return m, m.Options != "" && string(b[len(m.Options):]) == padding(l.used()+len(m.Options))
}

// readLoss reads the data of a loss option, as many bytes as the layout has.
func (l optionLayout) readLoss(m *Mark, b []byte) bool {
	m.setLoss(b)
	if l.tagged {
		m.setTag(b[int(l.lossLength)-tagLength:])
	}
	switch {
	case l.sparse:
		m.Sparse = true
		return b[lossLength] == typeSparse
	case l.aggregate:
		m.Aggregate = aggregateOf(b[lossLength])
		return m.Aggregate != 0
	}
	return true
}
