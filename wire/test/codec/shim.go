package codec

import (
	"fmt"

	"pillion.dev/wire"
)

// Protocol is the IPv4 protocol for experiments (RFC 3692, RFC 4727).
const Protocol = 253

// typeSparse is the bit of a shim's type for marks with Sparse.
const typeSparse = 4

// shimHead is the size of type, next protocol, length and flags.
const shimHead = 4

func init() { layouts[wire.Shim] = layout{insertShim, extractShim} }

// insertShim writes m behind an IPv4 header without options.
func insertShim(packet []byte, m Mark, _ uint16) ([]byte, error) {
	if size := headerSize(packet); size != ipv4Size {
		return nil, fmt.Errorf("header of %d bytes: %w", size, ErrHeaderOptions)
	}
	marked := make([]byte, 0, len(packet)+shimSize(m.Modules))
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
// protocol next: 20 bytes for delay, 8 for loss, 24 for both. It appends
// nothing if m carries no module.
func AppendShim(b []byte, next uint8, m Mark) []byte {
	size := shimSize(m.Modules)
	if size == 0 {
		return b
	}
	kind := uint8(m.Modules)
	if m.Sparse {
		kind |= typeSparse
	}
	b = append(b, kind, next, uint8(size-shimHead), 0)
	if m.Modules&wire.Delay != 0 {
		b = m.appendDelay(b)
	}
	if m.Modules&wire.Loss != 0 {
		b = m.appendLoss(b)
	}
	return b
}

// ParseShim reads the shim at the start of b and returns its mark, the
// protocol that follows and its own size in bytes. Flags are ignored. The
// error is ErrNotMark if the type is unknown, ErrMalformed if the length is
// not the type's, ErrShort if b ends too early.
func ParseShim(b []byte) (m Mark, next uint8, n int, err error) {
	if len(b) < shimHead {
		return Mark{}, 0, 0, fmt.Errorf("parse shim: %d bytes: %w", len(b), ErrShort)
	}
	set := wire.Module(b[0] &^ typeSparse)
	m.Sparse = b[0]&typeSparse != 0
	if !set.Valid() || m.Sparse && set != wire.Delay|wire.Loss {
		return Mark{}, 0, 0, fmt.Errorf("parse shim: type %d: %w", b[0], ErrNotMark)
	}
	size := shimSize(set)
	if int(b[2]) != size-shimHead {
		return Mark{}, 0, 0, fmt.Errorf("parse shim: %d bytes of data for %v: %w", b[2], set, ErrMalformed)
	}
	if len(b) < size {
		return Mark{}, 0, 0, fmt.Errorf("parse shim: %d bytes of %d: %w", len(b), size, ErrShort)
	}
	next, b = b[1], b[shimHead:]
	if set&wire.Delay != 0 {
		m.setDelay(b)
		b = b[delayLength:]
	}
	if set&wire.Loss != 0 {
		m.setLoss(b)
	}
	return m, next, size, nil
}

// shimSize returns the size of the whole shim, zero for no module.
func shimSize(m wire.Module) int { return wire.Shim.Overhead(m) }
