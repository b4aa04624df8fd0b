package codec

import (
	"bytes"
	"fmt"

	"pillion.dev/wire"
)

func init() { layouts[wire.IOAME2E] = layout{insertIOAME2E, extractIOAME2E} }

// edgeToEdge returns the option that carries m.
func (m Mark) edgeToEdge() (*E2E, error) {
	if m.Sparse || m.Received != 0 {
		return nil, fmt.Errorf("sparse %v, received %v: %w", m.Sparse, m.Received, ErrEncoding)
	}
	if m.Modules&wire.Loss != 0 && !m.Single {
		return nil, fmt.Errorf("burst: %w", ErrEncoding)
	}
	e := &E2E{Number: uint64(m.number()), Seconds: uint32(m.Sent >> 32), Fraction: uint32(m.Sent)}
	if m.Modules&wire.Loss != 0 {
		e.Fields |= E2ESequence32
	}
	if m.Modules&wire.Delay != 0 {
		e.Fields |= E2ESeconds | E2EFraction
	}
	return e, nil
}

// tagHeader adds the tag of m to a header.
func (m Mark) tagHeader(h Header) Header {
	if m.Tagged {
		h.Modules = append(h.Modules, TagOption(m.Tag))
	}
	return h
}

// insertIOAME2E writes m into an IPv6 packet.
func insertIOAME2E(packet []byte, m Mark, _ uint16) ([]byte, error) {
	e, err := m.edgeToEdge()
	if err != nil {
		return nil, err
	}
	return insertOptions(packet, func(b []byte, next uint8) []byte {
		return AppendHeader(b, next, m.tagHeader(Header{E2E: e}))
	})
}

// extractIOAME2E takes the mark out of an IPv6 packet.
func extractIOAME2E(packet []byte, _ uint16) (original []byte, m Mark, err error) {
	original, err = extractOptions(packet, func(b []byte) (next uint8, n int, err error) {
		h, next, n, err := ParseHeader(b)
		if err != nil {
			return 0, 0, err
		}
		if h.E2E == nil || h.Trace != nil {
			return 0, 0, fmt.Errorf("no edge-to-edge option: %w", ErrNotMark)
		}
		if m, err = h.mark(); err != nil {
			return 0, 0, err
		}
		e, err := m.edgeToEdge()
		if err != nil {
			return 0, 0, fmt.Errorf("%w: %w", ErrForeign, err)
		}
		if !bytes.Equal(b[:n], AppendHeader(nil, next, m.tagHeader(Header{E2E: e}))) {
			return 0, 0, fmt.Errorf("header %x: %w", b[:n], ErrForeign)
		}
		return next, n, nil
	})
	return original, m, err
}

// mark returns what the edge-to-edge option of a header says, and the tag beside it.
func (h Header) mark() (m Mark, err error) {
	if h.E2E.Fields&(E2ESequence32|E2ESequence64) != 0 {
		m.Modules |= wire.Loss
		m.Sequence, m.Single = uint32(h.E2E.Number)&wire.SequenceMask, h.E2E.Number&wire.SingleBit != 0
	}
	if h.E2E.Fields&E2ESeconds != 0 && h.E2E.Fields&E2EFraction != 0 {
		m.Modules |= wire.Delay
		m.Sent = Timestamp(h.E2E.Seconds)<<32 | Timestamp(h.E2E.Fraction)
	}
	for _, o := range h.Modules {
		if o.ID == ModuleTag {
			m.setTag(o.Data)
		}
	}
	if m.Modules == 0 {
		return Mark{}, fmt.Errorf("neither number nor time: %w", ErrNotMark)
	}
	if err := m.check(); err != nil {
		return Mark{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return m, nil
}
