package wire

// A Class is a set of properties of a packet that the choice of its encoding depends on.
type Class uint8

// The properties, as in wire.h. A packet has one version of IP and one transport.
const (
	ClassIPv4 Class = 1 << iota
	ClassIPv6
	ClassTCP
	ClassUDP
	ClassOther     // any other transport
	ClassForwarded // not sent by this host
	ClassGSO       // a segmentation buffer, which becomes several packets
	ClassExtended  // IPv4 options, IPv6 extension headers, or inside a tunnel's buffer
)
