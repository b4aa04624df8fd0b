package codec

import (
	"encoding/binary"
	"fmt"
	"time"

	"pillion.dev/wire"
)

// FlowStride divides a flow's first number, which is otherwise random.
const FlowStride = 0x10000

// Lengths of a module's data in bytes.
const (
	delayLength = 16
	lossLength  = 4
)

// A Mark is what a source writes into one packet.
type Mark struct {
	Modules  wire.Module // which of the other fields travel; the rest stay zero
	Sent     Timestamp   // Delay: when the source sent the packet
	Received Timestamp   // Delay: when an edge received it, zero until then
	Sequence uint32      // Loss: first number of the packet's burst, modulo 2^31
	Single   bool        // Loss: the packet left alone, its number is its own
	Sparse   bool        // Delay and Loss: numbers count packets without a mark, too

	// Delay, in an option of the transport, which has no room for a Timestamp: Sent in
	// units of 16 ns since 1970, UTC, modulo 2^32; Sent and Received are zero.
	Ticks uint32
}

// tickShift is the logarithm of the nanoseconds in a tick.
const tickShift = 4

// SentNear returns the time at which the source sent the packet, the nearest to ref that
// the mark can mean.
func (m Mark) SentNear(ref time.Time) time.Time {
	if m.Ticks == 0 {
		return m.Sent.Near(ref)
	}
	now := ref.UnixNano() >> tickShift
	return time.Unix(0, (now+int64(int32(m.Ticks-uint32(now))))<<tickShift).UTC()
}

// TicksOf returns t as the option of a transport carries it.
func TicksOf(t time.Time) uint32 { return uint32(t.UnixNano() >> tickShift) }

// appendDelay appends the 16 bytes of the delay module.
func (m Mark) appendDelay(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(m.Sent))
	return binary.BigEndian.AppendUint64(b, uint64(m.Received))
}

// appendLoss appends the 4 bytes of the loss module.
func (m Mark) appendLoss(b []byte) []byte {
	number := m.Sequence & wire.SequenceMask
	if m.Single {
		number |= wire.SingleBit
	}
	return binary.BigEndian.AppendUint32(b, number)
}

// appendExperiment appends the experimental option of a transport.
func (m Mark) appendExperiment(b []byte) ([]byte, error) {
	var number uint32
	if m.Modules&wire.Loss != 0 {
		if number = binary.BigEndian.Uint32(m.appendLoss(nil)); number == 0 {
			return nil, fmt.Errorf("burst with number 0: %w", ErrEncoding)
		}
	}
	if m.Modules&wire.Delay != 0 && m.Ticks == 0 {
		return nil, fmt.Errorf("delay without ticks: %w", ErrEncoding)
	}
	b = append(b, OptionKind, experimentLength)
	if m.Sparse {
		b = binary.BigEndian.AppendUint16(b, ExIDSparse)
	} else {
		b = binary.BigEndian.AppendUint16(b, ExID)
	}
	b = binary.BigEndian.AppendUint32(b, number)
	return binary.BigEndian.AppendUint32(b, m.Ticks), nil
}

// isExID reports whether an experiment identifier is one of ours.
func isExID(b []byte) bool {
	id := binary.BigEndian.Uint16(b)
	return id == ExID || id == ExIDSparse
}

// setExperiment reads the experimental option of a transport. Its kind and ExID are known.
func (m *Mark) setExperiment(b []byte) error {
	if b[1] != experimentLength {
		return fmt.Errorf("option of %d bytes: %w", b[1], ErrMalformed)
	}
	if binary.BigEndian.Uint32(b[4:]) != 0 {
		m.setLoss(b[4:])
	}
	if m.Ticks = binary.BigEndian.Uint32(b[8:]); m.Ticks != 0 {
		m.Modules |= wire.Delay
	}
	m.Sparse = binary.BigEndian.Uint16(b[2:]) == ExIDSparse
	if m.Modules == 0 || m.Sparse && m.Modules != wire.Delay|wire.Loss {
		return fmt.Errorf("sparse %v with %v: %w", m.Sparse, m.Modules, ErrMalformed)
	}
	return nil
}

// setDelay reads the 16 bytes of the delay module.
func (m *Mark) setDelay(b []byte) {
	m.Modules |= wire.Delay
	m.Sent = Timestamp(binary.BigEndian.Uint64(b))
	m.Received = Timestamp(binary.BigEndian.Uint64(b[8:]))
}

// setLoss reads the 4 bytes of the loss module.
func (m *Mark) setLoss(b []byte) {
	number := binary.BigEndian.Uint32(b)
	m.Modules |= wire.Loss
	m.Sequence = number & wire.SequenceMask
	m.Single = number&wire.SingleBit != 0
}
