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

// Classes is how many indices there are: WIRE_CLASSES of wire.h.
const Classes = 64

// classIndices are the bits of Class.Index by property, in the order of the properties:
// WIRE_INDEX_IPV4 and so on of wire.h.
var classIndices = [...]int{0, 0x01, 0, 0x02, 0x04, 0x08, 0x10, 0x20}

// Index is the place of a class in a table of Classes entries. Only classes with one version
// of IP and one transport have an index of their own.
func (c Class) Index() (index int) {
	for i, bit := range classIndices {
		if c&(1<<i) != 0 {
			index |= bit
		}
	}
	return index
}

// EachClass yields the classes that a packet can have.
func EachClass(yield func(Class) bool) {
	for _, version := range []Class{ClassIPv4, ClassIPv6} {
		for _, transport := range []Class{ClassTCP, ClassUDP, ClassOther} {
			for others := range Class(8) {
				if !yield(version | transport | others*ClassForwarded) {
					return
				}
			}
		}
	}
}
