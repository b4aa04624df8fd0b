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
	Tagged   bool        // with Loss: the mark ends with Tag
	Tag      uint32      // proves which host wrote the mark: see ComputeTag

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
	return time.Unix(0, m.ticksNear(ref)<<tickShift).UTC()
}

// ticksNear returns the ticks since 1970, nearest to ref, whose lower 32 bits the mark has.
func (m Mark) ticksNear(ref time.Time) int64 {
	now := ref.UnixNano() >> tickShift
	return now + int64(int32(m.Ticks-uint32(now)))
}

// TicksOf returns t as the option of a transport carries it.
func TicksOf(t time.Time) uint32 { return uint32(t.UnixNano() >> tickShift) }

// check returns an error unless a mark can carry what m does.
func (m Mark) check() error {
	if !m.Modules.Valid() || m.Sparse && m.Modules != wire.Delay|wire.Loss || m.Tagged && m.Modules&wire.Loss == 0 {
		return fmt.Errorf("modules %v, sparse %v, tagged %v: %w", m.Modules, m.Sparse, m.Tagged, ErrModules)
	}
	return nil
}

// overhead returns the number of bytes that m adds to a packet, without padding.
func (m Mark) overhead(e wire.Encoding) int {
	if m.Tagged {
		return e.TaggedOverhead(m.Modules)
	}
	return e.Overhead(m.Modules)
}

// number returns sequence number and single bit as they travel, zero without Loss.
func (m Mark) number() uint32 {
	if m.Modules&wire.Loss == 0 {
		return 0
	}
	number := m.Sequence & wire.SequenceMask
	if m.Single {
		number |= wire.SingleBit
	}
	return number
}

// appendDelay appends the 16 bytes of the delay module.
func (m Mark) appendDelay(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(m.Sent))
	return binary.BigEndian.AppendUint64(b, uint64(m.Received))
}

// appendLoss appends the 4 bytes of the loss module.
func (m Mark) appendLoss(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, m.number())
}

// appendTag appends the 4 bytes of the tag, if there is one.
func (m Mark) appendTag(b []byte) []byte {
	if !m.Tagged {
		return b
	}
	return binary.BigEndian.AppendUint32(b, m.Tag)
}

// appendExperiment appends the experimental option of a transport.
func (m Mark) appendExperiment(b []byte) ([]byte, error) {
	if m.Modules&wire.Loss != 0 && m.number() == 0 {
		return nil, fmt.Errorf("burst with number 0: %w", ErrEncoding)
	}
	if m.Modules&wire.Delay != 0 && m.Ticks == 0 {
		return nil, fmt.Errorf("delay without ticks: %w", ErrEncoding)
	}
	b = append(b, OptionKind, m.experimentSize())
	if m.Sparse {
		b = binary.BigEndian.AppendUint16(b, ExIDSparse)
	} else {
		b = binary.BigEndian.AppendUint16(b, ExID)
	}
	b = m.appendLoss(b)
	return m.appendTag(binary.BigEndian.AppendUint32(b, m.Ticks)), nil
}

// experimentSize returns the length of the experimental option of a transport.
func (m Mark) experimentSize() uint8 {
	if m.Tagged {
		return taggedExperimentLength
	}
	return experimentLength
}

// isExID reports whether an experiment identifier is one of ours.
func isExID(b []byte) bool {
	id := binary.BigEndian.Uint16(b)
	return id == ExID || id == ExIDSparse
}

// setExperiment reads the experimental option of a transport, which must fill b. Its kind and
// ExID are known.
func (m *Mark) setExperiment(b []byte) error {
	if int(b[1]) != len(b) {
		return fmt.Errorf("option of %d bytes in %d: %w", b[1], len(b), ErrMalformed)
	}
	if binary.BigEndian.Uint32(b[4:]) != 0 {
		m.setLoss(b[4:])
	}
	if m.Ticks = binary.BigEndian.Uint32(b[8:]); m.Ticks != 0 {
		m.Modules |= wire.Delay
	}
	m.Sparse = binary.BigEndian.Uint16(b[2:]) == ExIDSparse
	if len(b) == taggedExperimentLength {
		m.setTag(b[12:])
	}
	if err := m.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
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

// setTag reads the 4 bytes of a tag.
func (m *Mark) setTag(b []byte) {
	m.Tagged, m.Tag = true, binary.BigEndian.Uint32(b)
}
