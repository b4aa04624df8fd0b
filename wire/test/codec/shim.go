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
)

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
	b = append(b, kind, next, uint8(m.overhead(wire.Shim)-shimHead), 0)
	if m.Modules&wire.Delay != 0 {
		b = m.appendDelay(b)
	}
	if m.Modules&wire.Loss != 0 {
		b = m.appendLoss(b)
	}
	return m.appendTag(b)
}

// ParseShim reads the shim at the start of b and returns its mark, the
// protocol that follows and its own size in bytes. Flags are ignored. The
// error is ErrNotMark if the type is unknown, ErrMalformed if the length is
// not the type's, ErrShort if b ends too early.
func ParseShim(b []byte) (m Mark, next uint8, n int, err error) {
	if len(b) < shimHead {
		return Mark{}, 0, 0, fmt.Errorf("parse shim: %d bytes: %w", len(b), ErrShort)
	}
	m.Modules = wire.Module(b[0] &^ (typeSparse | typeTagged))
	m.Sparse, m.Tagged = b[0]&typeSparse != 0, b[0]&typeTagged != 0
	if err := m.check(); err != nil {
		return Mark{}, 0, 0, fmt.Errorf("parse shim: type %d: %w: %w", b[0], ErrNotMark, err)
	}
	size := m.overhead(wire.Shim)
	if int(b[2]) != size-shimHead {
		return Mark{}, 0, 0, fmt.Errorf("parse shim: %d bytes of data for type %d: %w", b[2], b[0], ErrMalformed)
	}
	if len(b) < size {
		return Mark{}, 0, 0, fmt.Errorf("parse shim: %d bytes of %d: %w", len(b), size, ErrShort)
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
