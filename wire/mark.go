package wire

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Sequence numbers.
const (
	SingleBit    = 1 << 31       // the packet left the source as one packet
	SequenceMask = SingleBit - 1 // the bits of the number itself
	FlowStride   = 0x10000       // a flow's first number is a random multiple of it
)

// A Module is a set of things that a mark can carry.
type Module uint8

// The modules, as bits of a set.
const (
	Delay Module = 1 << iota // sent and received timestamps, 16 bytes
	Loss                     // sequence number and single bit, 4 bytes

	modules = Delay | Loss
)

// Lengths of a module's data in bytes.
const (
	delayLength = 16
	lossLength  = 4
)

// ParseModule returns the set that s names: "delay", "loss" or "delay,loss",
// in any order.
func ParseModule(s string) (Module, error) {
	var set Module
	for name := range strings.SplitSeq(s, ",") {
		var one Module
		switch name {
		case "delay":
			one = Delay
		case "loss":
			one = Loss
		default:
			return 0, fmt.Errorf("parse modules %q: %q is neither delay nor loss", s, name)
		}
		if set&one != 0 {
			return 0, fmt.Errorf("parse modules %q: %s named twice", s, name)
		}
		set |= one
	}
	return set, nil
}

// String returns the names of the set's modules, separated by commas; "none"
// for the empty set.
func (m Module) String() string {
	switch m {
	case 0:
		return "none"
	case Delay:
		return "delay"
	case Loss:
		return "loss"
	case modules:
		return "delay,loss"
	}
	return fmt.Sprintf("Module(%#x)", uint8(m))
}

// MarshalText returns the set's name, or an error for a set that no mark can have.
func (m Module) MarshalText() ([]byte, error) {
	if !m.valid() {
		return nil, fmt.Errorf("marshal modules %v: %w", m, ErrModules)
	}
	return []byte(m.String()), nil
}

// UnmarshalText sets m to the set that text names, as ParseModule does.
func (m *Module) UnmarshalText(text []byte) (err error) {
	*m, err = ParseModule(string(text))
	return err
}

// valid reports whether a mark can carry exactly this set.
func (m Module) valid() bool { return m != 0 && m&^modules == 0 }

// A Mark is what a source writes into one packet.
type Mark struct {
	Modules  Module    // which of the other fields travel; the rest stay zero
	Sent     Timestamp // Delay: when the source sent the packet
	Received Timestamp // Delay: when an edge received it, zero until then
	Sequence uint32    // Loss: first number of the packet's burst, modulo 2^31
	Single   bool      // Loss: the packet left alone, its number is its own
}

// appendDelay appends the 16 bytes of the delay module.
func (m Mark) appendDelay(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(m.Sent))
	return binary.BigEndian.AppendUint64(b, uint64(m.Received))
}

// appendLoss appends the 4 bytes of the loss module.
func (m Mark) appendLoss(b []byte) []byte {
	number := m.Sequence & SequenceMask
	if m.Single {
		number |= SingleBit
	}
	return binary.BigEndian.AppendUint32(b, number)
}

// setDelay reads the 16 bytes of the delay module.
func (m *Mark) setDelay(b []byte) {
	m.Modules |= Delay
	m.Sent = Timestamp(binary.BigEndian.Uint64(b))
	m.Received = Timestamp(binary.BigEndian.Uint64(b[8:]))
}

// setLoss reads the 4 bytes of the loss module.
func (m *Mark) setLoss(b []byte) {
	number := binary.BigEndian.Uint32(b)
	m.Modules |= Loss
	m.Sequence = number & SequenceMask
	m.Single = number&SingleBit != 0
}
