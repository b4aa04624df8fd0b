package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"

	"pillion.dev/wire"
)

// OptionPDM is Performance and Diagnostic Metrics (RFC 8250).
const (
	OptionPDM = 0x0f
	pdmLength = 10
)

// A PDM is what the option says.
type PDM struct {
	Number uint16 // PSNTP: of this packet in its flow, from a random start
	Echo
}

// An Echo is what a packet says of those in the other direction.
type Echo struct {
	Last         uint16 // PSNLR: of the packet received last in the other direction; zero before the first
	LastReceived Delta  // DeltaTLR: from that packet's arrival to the departure of this one
	LastSent     Delta  // DeltaTLS: from the departure of the packet before this one to that arrival
}

// A Delta is a duration of PDM: Value times 2^Scale attoseconds (10^-18 s).
type Delta struct {
	Scale uint8
	Value uint16
}

var attosecondsPerNanosecond = big.NewInt(1e9)

// DeltaOf returns d, rounded down to 16 significant bits; zero if d is negative.
func DeltaOf(d time.Duration) Delta {
	value := new(big.Int).Mul(big.NewInt(int64(max(d, 0))), attosecondsPerNanosecond)
	scale := max(value.BitLen()-16, 0)
	return Delta{uint8(scale), uint16(new(big.Int).Rsh(value, uint(scale)).Uint64())}
}

// Duration returns the delta in whole nanoseconds, rounded down; the longest Duration if it is longer.
func (d Delta) Duration() time.Duration {
	value := new(big.Int).Lsh(big.NewInt(int64(d.Value)), uint(d.Scale))
	value.Quo(value, attosecondsPerNanosecond)
	if !value.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(value.Int64())
}

// append appends the option.
func (p PDM) append(b []byte) []byte {
	echo := p.Echo.append(nil)
	b = append(b, OptionPDM, pdmLength)
	b = append(b, echo[:2]...)
	b = binary.BigEndian.AppendUint16(b, p.Number)
	return append(b, echo[2:]...)
}

// echoLength is the size of what append writes, in bytes.
const echoLength = 8

// append appends the fields in the order of the option, without the number that stands behind the scales.
func (e Echo) append(b []byte) []byte {
	b = append(b, e.LastReceived.Scale, e.LastSent.Scale)
	b = binary.BigEndian.AppendUint16(b, e.Last)
	b = binary.BigEndian.AppendUint16(b, e.LastReceived.Value)
	return binary.BigEndian.AppendUint16(b, e.LastSent.Value)
}

// echoOf reads what append wrote.
func echoOf(b []byte) (Echo, error) {
	if len(b) != echoLength {
		return Echo{}, fmt.Errorf("%d bytes, want %d: %w", len(b), echoLength, ErrMalformed)
	}
	return Echo{
		Last:         binary.BigEndian.Uint16(b[2:]),
		LastReceived: Delta{b[0], binary.BigEndian.Uint16(b[4:])},
		LastSent:     Delta{b[1], binary.BigEndian.Uint16(b[6:])},
	}, nil
}

// parsePDM reads the data of the option.
func parsePDM(data []byte) (PDM, error) {
	if len(data) != pdmLength {
		return PDM{}, fmt.Errorf("PDM option of %d bytes: %w", len(data), ErrMalformed)
	}
	echo, err := echoOf(slices.Concat(data[:2], data[4:]))
	return PDM{binary.BigEndian.Uint16(data[2:]), echo}, err
}

func init() { layouts[wire.PDM] = layout{insertPDM, extractPDM} }

// pdm returns the option that carries m.
func (m Mark) pdm() (*PDM, error) {
	if m.Modules != wire.Loss || !m.Single || m.Sequence > math.MaxUint16 {
		return nil, fmt.Errorf("modules %v, single %v, number %d: %w", m.Modules, m.Single, m.Sequence, ErrEncoding)
	}
	return &PDM{uint16(m.Sequence), m.Echo}, nil
}

// insertPDM writes m into an IPv6 packet.
func insertPDM(packet []byte, m Mark, _ uint16) ([]byte, error) {
	p, err := m.pdm()
	if err != nil {
		return nil, err
	}
	return insertOptions(packet, func(b []byte, next uint8) []byte {
		return AppendHeader(b, next, m.tagHeader(Header{PDM: p}))
	})
}

// extractPDM takes the mark out of an IPv6 packet.
func extractPDM(packet []byte, _ uint16) (original []byte, m Mark, err error) {
	original, err = extractOptions(packet, func(b []byte) (next uint8, n int, err error) {
		h, next, n, err := ParseHeader(b)
		if err != nil {
			return 0, 0, err
		}
		if h.PDM == nil {
			return 0, 0, fmt.Errorf("no PDM option: %w", ErrNotMark)
		}
		m = Mark{Modules: wire.Loss, Sequence: uint32(h.PDM.Number), Single: true, Echo: h.PDM.Echo}
		for _, o := range h.Modules {
			if o.ID == ModuleTag {
				m.setTag(o.Data)
			}
		}
		if !bytes.Equal(b[:n], AppendHeader(nil, next, m.tagHeader(Header{PDM: h.PDM}))) {
			return 0, 0, fmt.Errorf("header %x: %w", b[:n], ErrForeign)
		}
		return next, n, nil
	})
	return original, m, err
}
