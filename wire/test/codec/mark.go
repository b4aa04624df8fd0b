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
	Received Timestamp   // Delay: when a waypoint received it, zero until then
	Sequence uint32      // Loss: first number of the packet's burst, modulo 2^31
	Single   bool        // Loss: the packet left alone, its number is its own
	// Aggregate, with Loss: the fields by which flows are told apart, if not by addresses,
	// protocol and ports. Their values are as in flow_fields of probe/bpf/flow.h.
	Aggregate uint8
	Sparse    bool   // Delay and Loss: numbers count packets without a mark, too
	Tagged    bool   // with Loss: the mark ends with Tag
	Tag       uint32 // proves which host wrote the mark: see ComputeTag

	// Options of modules as they travel, from AppendModules; not in options of transports, nor
	// in marks of standards.
	Options string

	Echo Echo // what the encoding pdm says of the other direction

	// Delay, in an option of the transport, which has no room for a Timestamp: Sent in
	// units of 16 ns since 1970, UTC, modulo 2^32; Sent and Received are zero.
	Ticks uint32

	// Block is what an option of Alternate Marking says; such a mark carries nothing else.
	Block AltMark
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
	if !m.Modules.Valid() || m.Sparse && m.Modules != wire.Delay|wire.Loss || m.Tagged && m.Modules&wire.Loss == 0 ||
		m.Aggregate != 0 && (m.Sparse || m.Aggregate >= aggregateFields) {
		return fmt.Errorf("modules %v, sparse %v, tagged %v: %w", m.Modules, m.Sparse, m.Tagged, ErrModules)
	}
	return nil
}

// overhead returns the number of bytes that m adds to a packet, without padding.
func (m Mark) overhead(e wire.Encoding) int {
	return e.Size(m.Modules, m.Tagged, m.Sparse || m.Aggregate != 0, len(m.Options))
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
	if m.Options != "" {
		return nil, fmt.Errorf("options of modules: %w", ErrEncoding)
	}
	b = append(b, OptionKind, m.experimentSize())
	b = binary.BigEndian.AppendUint16(b, m.exID())
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

// exID returns the experiment identifier of the option.
func (m Mark) exID() uint16 {
	switch {
	case m.Sparse:
		return ExIDSparse
	case m.Aggregate != 0:
		return ExIDAggregate | uint16(m.Aggregate)
	}
	return ExID
}

// isExID reports whether an experiment identifier is one of ours. Identifiers of aggregates by no field
// and by all of them, which is no aggregate, are not.
func isExID(b []byte) bool {
	id := binary.BigEndian.Uint16(b)
	return id == ExID || id == ExIDSparse || id > ExIDAggregate && id < ExIDAggregate|aggregateFields
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
	id := binary.BigEndian.Uint16(b[2:])
	m.Sparse = id == ExIDSparse
	if id&^aggregateFields == ExIDAggregate {
		m.Aggregate = uint8(id & aggregateFields)
	}
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
