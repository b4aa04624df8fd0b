package wire

// Port is the default UDP destination port of the udp encoding.
const Port = 50253

// Sequence numbers.
const (
	SingleBit    = 1 << 31       // the packet left the source as one packet
	SequenceMask = SingleBit - 1 // the bits of the number itself
)

// IngressMax is the highest number of an agent that a mark can name as its ingress: INGRESS_MAX of
// probe/destination/mark.h.
const IngressMax = 0xfffe
