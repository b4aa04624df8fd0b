package codec

import (
	"encoding/binary"

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
}

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
