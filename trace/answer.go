package trace

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"time"
)

// kind is what a reply means for the path.
type kind int

const (
	// passedOn: TTL expired at a router.
	passedOn kind = iota + 1
	// reachedEnd: the probe reached the destination.
	reachedEnd
	// refusedOn: a router reported the destination unreachable.
	refusedOn
)

// answer is an ICMP message about a probe of this trace.
type answer struct {
	number int
	from   netip.Addr
	kind   kind
	stamp  time.Time // of the kernel, wall clock; zero: none
	read   time.Time // with the monotonic clock
}

// Types and codes: RFC 792, RFC 4443.
const (
	echoReply4, echoReply6       = 0, 129
	unreachable4, unreachable6   = 3, 1
	timeExceeded4, timeExceeded6 = 11, 3
	noPort4, noPort6             = 3, 4
)

const lengthICMP = 8

// strip removes the IPv4 header of a packet from a raw socket, and returns the sender.
func strip(packet []byte) (from netip.Addr, message []byte, ok bool) {
	if len(packet) < length4 || packet[0]>>4 != 4 {
		return from, nil, false
	}
	header := int(packet[0]&0xf) * 4
	if header < length4 || header > len(packet) {
		return from, nil, false
	}
	return netip.AddrFrom4([4]byte(packet[12:16])), packet[header:], true
}

// read matches an ICMP message to a probe; most match none.
func (f *flow) read(from netip.Addr, message []byte) (answer, bool) {
	a := answer{from: from}
	if len(message) < lengthICMP {
		return a, false
	}
	six := f.source.Is6()
	pick := func(four, other byte) byte {
		if six {
			return other
		}
		return four
	}
	var ok bool
	switch body := message[lengthICMP:]; message[0] {
	case pick(echoReply4, echoReply6):
		a.kind = reachedEnd
		if f.protocol == protocolUDP || !bytes.Equal(message[4:8], f.transport[4:]) {
			return a, false
		}
		a.number, ok = f.numberIn(body)
	case pick(timeExceeded4, timeExceeded6):
		a.kind = passedOn
		a.number, ok = f.quoted(body)
	case pick(unreachable4, unreachable6):
		a.kind = refusedOn
		a.number, ok = f.quoted(body)
		if f.protocol == protocolUDP && message[1] == pick(noPort4, noPort6) {
			a.kind = reachedEnd // possibly from another of its addresses
		}
	}
	if from == f.destination.WithZone("") {
		a.kind = reachedEnd
	}
	return a, ok
}

// quoted returns the number of the quoted probe. RFC 4884 extensions after the quote are
// ignored.
func (f *flow) quoted(quote []byte) (int, bool) {
	destination := f.destination.WithZone("")
	if f.source.Is6() {
		if len(quote) < length6 || quote[0]>>4 != 6 || netip.AddrFrom16([16]byte(quote[24:40])) != destination {
			return 0, false
		}
		return f.numberIn(quote[length6:])
	}
	_, rest, ok := strip(quote)
	if !ok || netip.AddrFrom4([4]byte(quote[16:20])) != destination {
		return 0, false
	}
	if len(rest) >= lengthTransport+lengthToken {
		return f.numberIn(rest)
	}
	if quote[9] != f.protocol || len(rest) < lengthTransport || [lengthTransport]byte(rest) != f.transport {
		return 0, false
	}
	return int(binary.BigEndian.Uint16(quote[4:]) - f.first), true
}

// numberIn reads the number after the token, at any offset: a mark may precede it.
func (f *flow) numberIn(b []byte) (int, bool) {
	at := bytes.Index(b, f.token[:])
	if at < 0 || len(b) < at+lengthToken+2 {
		return 0, false
	}
	return int(binary.BigEndian.Uint16(b[at+lengthToken:])), true
}
