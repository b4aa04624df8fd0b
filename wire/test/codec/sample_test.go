package codec_test

import "encoding/binary"

// A header makes the IP header of a sample packet.
type header struct {
	v6    bool
	bare  bool   // IPv4: everything that an outer header copies is zero or one
	extra []byte // IPv4 options, or an IPv6 Hop-by-Hop header but for its next header
}

// A segment is a transport header and payload with its checksum at an offset,
// zero for none.
type segment struct {
	bytes    []byte
	checksum int
}

// with returns the packet that carries payload: a segment, or bytes, of the
// given protocol. All checksums are right.
func (h header) with(protocol uint8, payload any) []byte {
	var b []byte
	if h.v6 {
		b = h.ipv6(protocol)
	} else {
		b = h.ipv4(protocol)
	}
	at := len(b)
	switch p := payload.(type) {
	case []byte:
		b = append(b, p...)
	case segment:
		b = append(b, p.bytes...)
		pseudo := b[12:20]
		if h.v6 {
			pseudo = b[8:40]
		}
		if protocol == 1 {
			pseudo = nil
		} else {
			pseudo = append([]byte{0, protocol, byte(len(p.bytes) >> 8), byte(len(p.bytes))}, pseudo...)
		}
		binary.BigEndian.PutUint16(b[at+p.checksum:], checksum(pseudo, p.bytes))
	}
	if h.v6 {
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
		return b
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[10:], checksum(b[:at]))
	return b
}

func (h header) ipv4(protocol uint8) []byte {
	b := []byte{
		0x45 + byte(len(h.extra)/4), 0xb9, 0, 0, 0x1c, 0x46, 0x40, 0, 63, protocol, 0, 0,
		192, 0, 2, 1, 198, 51, 100, 2,
	}
	if h.bare {
		b[1], b[4], b[5], b[6], b[8] = 0, 0, 0, 0, 1
	}
	return append(b, h.extra...)
}

func (h header) ipv6(next uint8) []byte {
	b := []byte{0x6b, 0x91, 0x23, 0x45, 0, 0, next, 63}
	b = append(b, address6(1)...)
	b = append(b, address6(2)...)
	if h.extra != nil {
		at := len(b)
		b[6] = 0
		b = append(b, h.extra...)
		b[at] = next
	}
	return b
}

func address6(host byte) []byte {
	return []byte{0x20, 0x01, 0x0d, 0xb8, 15: host}
}

func tcp(payload []byte) segment {
	return segment{append([]byte{
		0x9c, 0x40, 0x00, 0x50, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x18, 0x01, 0xf6, 0, 0, 0, 0,
	}, payload...), 16}
}

func tcpOptions(flags uint8, options, payload []byte) segment {
	s := tcp(append(options[:len(options):len(options)], payload...))
	s.bytes[12], s.bytes[13] = byte(5+len(options)/4)<<4, flags
	return s
}

func udp(payload []byte) segment {
	return segment{append([]byte{
		0x9c, 0x40, 0x1f, 0x90, byte((len(payload) + 8) >> 8), byte(len(payload) + 8), 0, 0,
	}, payload...), 6}
}

// echo is an ICMP or ICMPv6 echo request.
func echo(kind uint8, payload []byte) segment {
	return segment{append([]byte{kind, 0, 0, 0, 0x12, 0x34, 0, 1}, payload...), 2}
}

// checksum is that of RFC 1071 over parts of even length, but for the last.
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
