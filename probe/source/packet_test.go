package source

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"pillion.dev/probe/flow"
)

var (
	hosts4 = []string{"192.0.2.1", "192.0.2.200", "198.51.100.2", "10.1.2.3"}
	hosts6 = []string{"2001:db8::1", "2001:db8::ffff", "2001:db8:1::2", "fd00::1"}
)

func address(text string) []byte { return netip.MustParseAddr(text).AsSlice() }

// ipv6 returns a packet; behind is a transport header or an extension header.
func ipv6(src, dst string, next uint8, behind []byte) []byte {
	b := []byte{0x60, 0, 0, 0, 0, 0, next, 64}
	binary.BigEndian.PutUint16(b[4:], uint16(len(behind)))
	b = append(append(b, address(src)...), address(dst)...)
	return append(b, behind...)
}

func ipv4(src, dst string, protocol uint8, behind []byte) []byte {
	return ipv4Options(src, dst, protocol, nil, behind)
}

func ipv4Options(src, dst string, protocol uint8, options, behind []byte) []byte {
	b := []byte{0x45 + byte(len(options)/4), 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0}
	b = append(append(b, address(src)...), address(dst)...)
	b = append(append(b, options...), behind...)
	return seal4(b)
}

// seal4 puts length and checksum of an IPv4 header right.
func seal4(b []byte) []byte {
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], checksum(b[:4*int(b[0]&15)]))
	return b
}

// checksum is that of RFC 1071; of what includes its own checksum it is zero.
func checksum(parts ...[]byte) uint16 {
	var sum uint32
	for _, part := range parts {
		for i, c := range part {
			sum += uint32(c) << (8 * (1 - i%2))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// tcpChecksum is zero for a right packet of either family.
func tcpChecksum(packet []byte) uint16 {
	addresses, segment := packet[12:20], packet[4*int(packet[0]&15):]
	if packet[0]>>4 == 6 {
		addresses, segment = packet[8:40], packet[40:]
	}
	pseudo := []byte{0, 6, byte(len(segment) >> 8), byte(len(segment))}
	return checksum(addresses, pseudo, segment)
}

func tcp(sport, dport uint16, flags uint8, options, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, sport)
	b = binary.BigEndian.AppendUint16(b, dport)
	b = append(b, 1, 2, 3, 4, 5, 6, 7, 8, byte(5+len(options)/4)<<4, flags, 1, 0xf6, 0, 0, 0, 0)
	return append(append(b, options...), payload...)
}

// ported is a UDP, UDP-Lite, DCCP or SCTP header as far as it matters here.
func ported(sport, dport uint16, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, sport)
	b = binary.BigEndian.AppendUint16(b, dport)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	return append(append(b, 0, 0), payload...)
}

// variety makes packets of every kind that a device may see.
type variety struct {
	*rand.Rand
	onePort uint16 // instead of various ones, if not 0
}

func (v variety) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(v.Uint32())
	}
	return b
}

func (v variety) pick(from []string) string { return from[v.IntN(len(from))] }

func (v variety) port() uint16 {
	if v.onePort != 0 {
		return v.onePort
	}
	return []uint16{53, 80, 443, 5000, 50253, uint16(v.Uint32())}[v.IntN(6)]
}

// size is that of a payload: often none or little, up to what a path takes and
// slightly more.
func (v variety) size() int {
	return []int{0, v.IntN(8), v.IntN(200), v.IntN(1440), 1380 + v.IntN(100)}[v.IntN(5)]
}

func (v variety) transport() (uint8, []byte) {
	payload := v.bytes(v.size())
	switch v.IntN(8) {
	case 0, 1:
		flags := []uint8{0x10, 0x18, 0x02, 0x12, 0x11, 0x04}[v.IntN(6)]
		return 6, tcp(v.port(), v.port(), flags, v.bytes(4*v.IntN(11)), payload)
	case 2, 3:
		return 17, ported(v.port(), v.port(), payload)
	case 4:
		return 132, ported(v.port(), v.port(), payload)
	case 5:
		return 200, payload
	case 6:
		return 136, ported(v.port(), v.port(), payload)
	}
	return 1, append([]byte{8, 0, 0, 0, 1, 2, 0, 1}, payload...)
}

func (v variety) packet6() []byte {
	next, behind := v.transport()
	if next == 1 { // ICMPv6: echo, too big, or neighbour discovery
		next, behind[0] = 58, []byte{128, 129, 2, 135, 136}[v.IntN(5)]
	}
	switch v.IntN(16) {
	case 0:
		next, behind = 59, nil
	case 1: // foreign Destination Options
		next, behind = 60, append([]byte{next, 0, 0x05, 4, 0, 0, 0, 0}, behind...)
	case 2:
		next, behind = 43, append([]byte{next, 0, 4, 0, 0, 0, 0, 0}, behind...)
	case 3:
		next, behind = 44, append([]byte{next, 0, 0, byte(v.IntN(2)), 1, 2, 3, 4}, behind...)
	case 4:
		next, behind = 51, append([]byte{next, 1, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1}, behind...)
	case 5:
		next = []uint8{135, 139, 140}[v.IntN(3)]
	}
	if v.IntN(4) == 0 {
		units := v.IntN(9)
		options := append([]byte{next, byte(units), 1, byte(4 + 8*units)}, make([]byte, 4+8*units)...)
		next, behind = 0, append(options, behind...)
	}
	dst := v.pick(hosts6)
	if v.IntN(20) == 0 {
		dst = "ff02::1"
	}
	b := ipv6(v.pick(hosts6), dst, next, behind)
	binary.BigEndian.PutUint32(b, 6<<28|v.Uint32()>>4)
	b[7] = byte(1 + v.IntN(255))
	return b
}

func (v variety) packet4() []byte {
	protocol, behind := v.transport()
	switch v.IntN(16) {
	case 0:
		protocol = 253
	case 1:
		inner := ipv4(v.pick(hosts4), v.pick(hosts4), protocol, behind)
		protocol, behind = 4, inner
	}
	var options []byte
	if v.IntN(6) == 0 {
		options = append([]byte{0x94, 4, 0, 0}, make([]byte, 4*v.IntN(10))...)
	}
	dst := v.pick(hosts4)
	if v.IntN(20) == 0 {
		dst = "239.1.2.3"
	}
	b := ipv4Options(v.pick(hosts4), dst, protocol, options, behind)
	b[1], b[8] = byte(v.Uint32()), byte(1+v.IntN(255))
	binary.BigEndian.PutUint16(b[4:], uint16(v.Uint32()))
	fragment := []uint16{0x4000, 0, 0x4000, 0, 0x2000, 0x00b9, 0x20b9, 0x8000, 0xc000}[v.IntN(9)]
	binary.BigEndian.PutUint16(b[6:], fragment)
	return seal4(b)
}

// packet is now and then not what its headers say.
func (v variety) packet() []byte {
	b := v.packet4()
	if v.IntN(2) == 0 {
		b = v.packet6()
	}
	switch v.IntN(24) {
	case 0: // cut off
		b = b[:20+v.IntN(len(b)-19)]
	case 1: // padding behind, as in a short Ethernet frame
		b = append(b, v.bytes(1+v.IntN(46))...)
	case 2: // a length that is none, or a version
		b[2+v.IntN(4)] = byte(v.Uint32())
	case 3:
		b[0] ^= 1 << v.IntN(4)
	case 4: // a wrong checksum, or another hop limit
		b[10] ^= 0x55
	}
	return b
}

// keyOf reads the five-tuple of a whole packet without extension headers.
func keyOf(packet []byte) flow.Key {
	var k flow.Key
	at := 40
	if packet[0]>>4 == 4 {
		k.Src, k.Dst = netip.AddrFrom4([4]byte(packet[12:])), netip.AddrFrom4([4]byte(packet[16:]))
		k.Protocol, at = packet[9], 4*int(packet[0]&15)
	} else {
		k.Src, k.Dst = netip.AddrFrom16([16]byte(packet[8:])), netip.AddrFrom16([16]byte(packet[24:]))
		k.Protocol = packet[6]
	}
	switch k.Protocol {
	case 6, 17, 33, 132, 136:
		k.Sport, k.Dport = binary.BigEndian.Uint16(packet[at:]), binary.BigEndian.Uint16(packet[at+2:])
	}
	return k
}
