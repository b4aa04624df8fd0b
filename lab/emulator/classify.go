package emulator

import "encoding/binary"

// What a marked packet looks like on the wire. A test compares these numbers
// with wire/wire.h, which this room must not import.
const (
	optionDelay     = 0x3e
	optionLoss      = 0x1e
	optionPDM       = 0x0f
	optionMark      = 0x12 // Alternate Marking
	optionIOAM      = 0x11
	optionHops      = 0x31 // IOAM in a Hop-by-Hop header
	markProtocol    = 253
	markUDPPort     = 50253
	markExID        = 0x504c // of an experimental option of the transport
	sparseExID      = 0x504d // the same in a flow of which only some packets carry a mark
	aggregateExID   = 0x5060 // the same in an aggregate of flows, plus fields
	aggregateFields = 0x1f
	udpOption       = 14 // bytes behind the data of a UDP datagram, without padding
	tcpOption       = 12 // bytes at the end of a TCP header
	tcpTagged       = 16 // the same with a tag
	tcpMark         = 253
)

const (
	etherHeader = 14
	etherIPv4   = 0x0800
	etherIPv6   = 0x86dd

	protocolHopByHop    = 0
	protocolIPIP        = 4
	protocolTCP         = 6
	protocolUDP         = 17
	protocolICMPv6      = 58
	protocolDestination = 60
	protocolSCTP        = 132
	protocolUDPLite     = 136
)

// key identifies a flow: the fields of the outermost IP packet as it is on the
// wire, and whether it carries a mark.
type key struct {
	source, destination         [16]byte
	ipv6                        bool
	marked                      bool
	protocol                    uint8
	sourcePort, destinationPort uint16
}

// classify returns a frame's flow. It returns false for control frames, which are only
// delayed so that the lab keeps working: everything but untagged IP packets (such as
// ARP), IPv6 neighbour discovery and multicast listener reports.
func classify(frame []byte) (key, bool) {
	if len(frame) < etherHeader {
		return key{}, false
	}
	packet := frame[etherHeader:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherIPv4:
		return classifyIPv4(packet)
	case etherIPv6:
		return classifyIPv6(packet)
	}
	return key{}, false
}

func classifyIPv4(packet []byte) (key, bool) {
	if len(packet) < 20 {
		return key{}, false
	}
	k := key{protocol: packet[9]}
	copy(k.source[:], packet[12:16])
	copy(k.destination[:], packet[16:20])
	header := int(packet[0]&0xf) * 4
	if header < 20 || header > len(packet) {
		return k, true
	}
	payload := packet[header:]
	fragment := binary.BigEndian.Uint16(packet[6:])&0x3fff != 0
	if !fragment {
		k.ports(payload)
	}
	switch {
	case k.protocol == markProtocol:
		k.marked = true
	case k.protocol == protocolIPIP:
		k.marked = len(payload) >= 20 && payload[9] == markProtocol
	}
	return k, true
}

func classifyIPv6(packet []byte) (key, bool) {
	if len(packet) < 40 {
		return key{}, false
	}
	k := key{ipv6: true, protocol: packet[6]}
	copy(k.source[:], packet[8:24])
	copy(k.destination[:], packet[24:40])
	payload := packet[40:]
	for k.protocol == protocolHopByHop || k.protocol == protocolDestination {
		if len(payload) < 8 || len(payload) < int(payload[1])*8+8 {
			return k, true
		}
		k.marked = k.marked || hasOption(payload[:int(payload[1])*8+8], k.protocol == protocolHopByHop)
		k.protocol, payload = payload[0], payload[int(payload[1])*8+8:]
	}
	if k.protocol == protocolICMPv6 && len(payload) > 0 && isNeighbourhood(payload[0]) {
		return key{}, false
	}
	k.ports(payload)
	return k, true
}

// hasOption reports whether a mark is among the options of a whole header.
func hasOption(header []byte, hopByHop bool) bool {
	for at := 2; at < len(header); {
		kind := header[at]
		switch kind {
		case 0: // Pad1
			at++
			continue
		case optionHops:
			if hopByHop {
				return true
			}
		case optionDelay, optionLoss, optionPDM, optionMark, optionIOAM:
			if !hopByHop {
				return true
			}
		}
		if at+1 >= len(header) {
			return false
		}
		at += 2 + int(header[at+1])
	}
	return false
}

// ports reads the ports, if the protocol has them, and recognises the udp encoding.
func (k *key) ports(payload []byte) {
	switch k.protocol {
	case protocolTCP, protocolUDP, protocolSCTP, protocolUDPLite:
	default:
		return
	}
	if len(payload) < 4 {
		return
	}
	k.sourcePort = binary.BigEndian.Uint16(payload)
	k.destinationPort = binary.BigEndian.Uint16(payload[2:])
	switch k.protocol {
	case protocolUDP:
		k.marked = k.marked || k.destinationPort == markUDPPort || hasUDPOption(payload)
	case protocolTCP:
		k.marked = k.marked || hasTCPOption(payload)
	}
}

// hasUDPOption reports whether a mark follows the data of a UDP datagram.
func hasUDPOption(datagram []byte) bool {
	if len(datagram) < 8 {
		return false
	}
	length := int(binary.BigEndian.Uint16(datagram[4:]))
	option := length + length%2
	return length >= 8 && len(datagram) >= option+udpOption && isExID(datagram[option+4:])
}

// hasTCPOption reports whether a mark is the last option of a TCP segment.
func hasTCPOption(segment []byte) bool {
	if len(segment) < 20 {
		return false
	}
	end := int(segment[12]>>4) * 4
	for _, length := range []int{tcpTagged, tcpOption} {
		option := end - length
		if option >= 20 && end <= len(segment) && segment[option] == tcpMark && int(segment[option+1]) == length &&
			isExID(segment[option+2:]) {
			return true
		}
	}
	return false
}

func isExID(b []byte) bool {
	id := binary.BigEndian.Uint16(b)
	return id == markExID || id == sparseExID || id > aggregateExID && id < aggregateExID|aggregateFields
}

// isNeighbourhood reports ICMPv6 types of multicast listener discovery (RFC 2710,
// RFC 3810) and neighbour discovery (RFC 4861).
func isNeighbourhood(icmpType byte) bool {
	return (icmpType >= 130 && icmpType <= 137) || icmpType == 143
}
