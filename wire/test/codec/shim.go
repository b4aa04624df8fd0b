package codec

import (
	"fmt"

	"pillion.dev/wire"
)

// Protocol is the IPv4 protocol for experiments (RFC 3692, RFC 4727).
const Protocol = 253

// The bits of a shim's type for marks with Sparse and with a tag.
const (
	typeSparse = 4
	typeTagged = 8
	// typeModules says that options of modules follow.
	typeModules = 16
)

// flagAggregate, beside the fields of an aggregate in flags.
const (
	flagAggregate   = 0x80
	aggregateFields = 0x1f
)

// aggregateOf returns the fields that flags name; 0 if they name none.
func aggregateOf(flags uint8) uint8 {
	if flags <= flagAggregate || flags >= flagAggregate|aggregateFields {
		return 0
	}
	return flags &^ flagAggregate
}

// shimHead is the size of type, next protocol, length and flags.
const shimHead = 4

func init() { layouts[wire.Shim] = layout{insertShim, extractShim} }

// insertShim writes m behind an IPv4 header without options.
func insertShim(packet []byte, m Mark, _ uint16) ([]byte, error) {
	if size := headerSize(packet); size != ipv4Size {
		return nil, fmt.Errorf("header of %d bytes: %w", size, ErrHeaderOptions)
	}
	marked := make([]byte, 0, len(packet)+m.overhead(wire.Shim))
	marked = append(marked, packet[:ipv4Size]...)
	marked = AppendShim(marked, packet[9], m)
	marked = append(marked, packet[ipv4Size:]...)
	seal(marked, Protocol)
	return marked, nil
}

// extractShim takes out the shim that follows a header without options.
func extractShim(packet []byte, _ uint16) (original []byte, m Mark, err error) {
	if err := checkProtocol(packet, Protocol); err != nil {
		return nil, Mark{}, err
	}
	m, next, n, err := ParseShim(packet[ipv4Size:])
	if err != nil {
		return nil, Mark{}, err
	}
	original = make([]byte, 0, len(packet)-n)
	original = append(original, packet[:ipv4Size]...)
	original = append(original, packet[ipv4Size+n:]...)
	seal(original, next)
	return original, m, nil
}

// AppendShim appends to b the IPv4 shim that carries m and is followed by
// protocol next: 20 bytes for delay, 8 for loss, 24 for both, and 4 more for a
// tag. It appends nothing if no mark carries what m does.
func AppendShim(b []byte, next uint8, m Mark) []byte {
	if m.check() != nil {
		return b
	}
	kind := uint8(m.Modules)
	if m.Sparse {
		kind |= typeSparse
	}
	if m.Tagged {
		kind |= typeTagged
	}
	if m.Options != "" {
		kind |= typeModules
	}
	flags := uint8(0)
	if m.Aggregate != 0 {
		flags = flagAggregate | m.Aggregate
	}
	b = append(b, kind, next, uint8(m.overhead(wire.Shim)-shimHead), flags)
	if m.Modules&wire.Delay != 0 {
		b = m.appendDelay(b)
	}
	if m.Modules&wire.Loss != 0 {
		b = m.appendLoss(b)
	}
	return append(m.appendTag(b), m.Options...)
}

// ParseShim reads the shim at the start of b and returns its mark, the
// protocol that follows and its own size in bytes. Other flags are ignored. The
// error is ErrNotMark if the type is unknown, ErrMalformed if the length is
// not the type's, ErrShort if b ends too early.
func ParseShim(b []byte) (m Mark, next uint8, n int, err error) {
	if len(b) < shimHead {
		return Mark{}, 0, 0, fmt.Errorf("parse shim: %d bytes: %w", len(b), ErrShort)
	}
	m.Modules = wire.Module(b[0] &^ (typeSparse | typeTagged | typeModules))
	m.Sparse, m.Tagged = b[0]&typeSparse != 0, b[0]&typeTagged != 0
	m.Aggregate = aggregateOf(b[3])
	if err := m.check(); err != nil {
		return Mark{}, 0, 0, fmt.Errorf("parse shim: type %d: %w: %w", b[0], ErrNotMark, err)
	}
	size := m.overhead(wire.Shim)
	options := int(b[2]) + shimHead - size
	if b[0]&typeModules == 0 && options != 0 || b[0]&typeModules != 0 && (options < 1 || options > optionsMax) {
		return Mark{}, 0, 0, fmt.Errorf("parse shim: %d bytes of data for type %d: %w", b[2], b[0], ErrMalformed)
	}
	size += options
	if len(b) < size {
		return Mark{}, 0, 0, fmt.Errorf("parse shim: %d bytes of %d: %w", len(b), size, ErrShort)
	}
	m.Options = moduleOptions(b[size-options : size])
	if len(m.Options) != options {
		return Mark{}, 0, 0, fmt.Errorf("parse shim: options of modules %x: %w", b[size-options:size], ErrMalformed)
	}
	next, b = b[1], b[shimHead:size]
	if m.Modules&wire.Delay != 0 {
		m.setDelay(b)
		b = b[delayLength:]
	}
	if m.Modules&wire.Loss != 0 {
		m.setLoss(b)
		b = b[lossLength:]
	}
	if m.Tagged {
		m.setTag(b)
	}
	return m, next, size, nil
}
