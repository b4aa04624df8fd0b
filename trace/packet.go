package trace

import (
	"crypto/rand"
	"encoding/binary"
	"hash/fnv"
	"net/netip"
)

const (
	length4         = 20 // IPv4 header
	length6         = 40 // IPv6 header
	lengthTransport = 8  // UDP, and ICMP echo
	lengthToken     = 8
	lengthPayload   = lengthToken + 2 + 2 // token, number, balance
	lengthProbe     = lengthTransport + lengthPayload

	protocolICMP  = 1
	protocolUDP   = 17
	protocolICMP6 = 58

	// The base port of traceroute: allowed by firewalls, unused by servers.
	portDestination = 33434
	// Above the ephemeral range of Linux, so that no other flow has it.
	portSource  = 61000
	portSources = 4096
)

// flow is the constant part of a trace's probes.
type flow struct {
	source, destination netip.Addr // destination may have a zone
	protocol            byte
	// transport is the eight bytes after the IP header.
	transport [lengthTransport]byte
	label     uint32
	// token identifies this trace's probes.
	token [lengthToken]byte
	// first is the IPv4 identification of probe 0; no probe has 0, for which the kernel
	// would substitute its own.
	first uint16
}

// newFlow derives all fields that routers may hash from the arguments, and the rest
// randomly.
func newFlow(source, destination netip.Addr, protocol string, number uint16) *flow {
	f := &flow{source: source, destination: destination}
	hash := fnv.New64a()
	hash.Write([]byte(protocol))
	hash.Write(source.AsSlice())
	hash.Write(destination.AsSlice())
	hash.Write([]byte{byte(number >> 8), byte(number)})
	h := hash.Sum64()
	f.label = uint32(h>>44) | 1
	// Neither 0 nor 0xffff: 0 means "no checksum" in UDP, and both are the same sum.
	checksum := uint16(h>>28)%0xfffe + 1
	if protocol == ICMP {
		f.protocol = protocolICMP
		f.transport[0] = 8 // echo request
		if source.Is6() {
			f.protocol = protocolICMP6
			f.transport[0] = 128
		}
		binary.BigEndian.PutUint16(f.transport[2:], checksum)
		binary.BigEndian.PutUint32(f.transport[4:], uint32(h))
	} else {
		f.protocol = protocolUDP
		binary.BigEndian.PutUint16(f.transport[0:], portSource+uint16(h%portSources))
		binary.BigEndian.PutUint16(f.transport[2:], portDestination)
		binary.BigEndian.PutUint16(f.transport[4:], lengthProbe)
		binary.BigEndian.PutUint16(f.transport[6:], checksum)
	}
	var random [lengthToken + 2]byte
	rand.Read(random[:])
	copy(f.token[:], random[2:])
	f.first = binary.BigEndian.Uint16(random[:])%0x8000 + 1
	return f
}

// packet returns the probe with that number, with its IP header.
func (f *flow) packet(ttl, number int) []byte {
	var packet []byte
	if f.source.Is4() {
		packet = f.header4(ttl, number)
	} else {
		packet = f.header6(ttl)
	}
	at := len(packet)
	packet = append(packet, f.transport[:]...)
	packet = append(packet, f.token[:]...)
	packet = binary.BigEndian.AppendUint16(packet, uint16(number))
	packet = binary.BigEndian.AppendUint16(packet, 0)
	binary.BigEndian.PutUint16(packet[len(packet)-2:], f.balance(packet[at:]))
	return packet
}

// header4 leaves the checksum to the kernel, which always computes it.
func (f *flow) header4(ttl, number int) []byte {
	header := make([]byte, length4, length4+lengthProbe)
	header[0] = 0x45
	binary.BigEndian.PutUint16(header[2:], length4+lengthProbe)
	binary.BigEndian.PutUint16(header[4:], f.first+uint16(number))
	header[6] = 0x40 // do not fragment
	header[8], header[9] = byte(ttl), f.protocol
	copy(header[12:], f.source.AsSlice())
	copy(header[16:], f.destination.AsSlice())
	return header
}

func (f *flow) header6(ttl int) []byte {
	header := make([]byte, length6, length6+lengthProbe)
	binary.BigEndian.PutUint32(header, 6<<28|f.label)
	binary.BigEndian.PutUint16(header[4:], lengthProbe)
	header[6], header[7] = f.protocol, byte(ttl)
	copy(header[8:], f.source.AsSlice())
	copy(header[24:], f.destination.AsSlice())
	return header
}

// balance returns the word that, replacing two zero bytes, makes the probe match its
// fixed checksum.
func (f *flow) balance(probe []byte) uint16 {
	return ^sum(probe, f.pseudo())
}

// pseudo returns the sum of the pseudo-header (RFC 768, RFC 8200); ICMP for IPv4 has
// none.
func (f *flow) pseudo() uint32 {
	if f.protocol == protocolICMP {
		return 0
	}
	start := uint32(f.protocol) + lengthProbe
	start = uint32(sum(f.source.AsSlice(), start))
	return uint32(sum(f.destination.AsSlice(), start))
}

// sum is the ones' complement sum (RFC 1071) of an even number of bytes, added to start.
func sum(b []byte, start uint32) uint16 {
	for i := 0; i+1 < len(b); i += 2 {
		start += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for start > 0xffff {
		start = start>>16 + start&0xffff
	}
	return uint16(start)
}
