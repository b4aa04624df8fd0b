package wire

import "fmt"

// What carries the shim.
const (
	Protocol = 253   // IPv4 protocol for experiments (RFC 3692, RFC 4727)
	Port     = 50253 // default UDP destination port of the udp encoding
)

// shimHead is the size of type, next protocol, length and flags.
const shimHead = 4

// AppendShim appends to b the IPv4 shim that carries m and is followed by
// protocol next: 20 bytes for delay, 8 for loss, 24 for both. It appends
// nothing if m carries no module.
func AppendShim(b []byte, next uint8, m Mark) []byte {
	size := shimSize(m.Modules)
	if size == 0 {
		return b
	}
	b = append(b, uint8(m.Modules&modules), next, uint8(size-shimHead), 0)
	if m.Modules&Delay != 0 {
		b = m.appendDelay(b)
	}
	if m.Modules&Loss != 0 {
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
	set := Module(b[0])
	if !set.valid() {
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
	if set&Delay != 0 {
		m.setDelay(b)
		b = b[delayLength:]
	}
	if set&Loss != 0 {
		m.setLoss(b)
	}
	return m, next, size, nil
}

// shimSize returns the size of the whole shim, zero for no module.
func shimSize(m Module) int {
	size := 0
	if m&Delay != 0 {
		size += delayLength
	}
	if m&Loss != 0 {
		size += lossLength
	}
	if size == 0 {
		return 0
	}
	return shimHead + size
}
