package lab_test

import (
	"encoding/binary"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// card is a network card that computes checksums of packets that leave a host: a tun device
// of which the kernel thinks that it does.
type card struct {
	// sum returns the checksum of a UDP datagram.
	sum func(datagram) uint16
	// surplus counts datagrams that end before their packet whose checksum it computed.
	surplus atomic.Uint64
}

// datagram is a packet of which the last part, from the UDP header on, is udp. The field of
// its checksum has what the kernel left there.
type datagram struct {
	packet []byte
	udp    []byte
}

// length is what the UDP header states.
func (d datagram) length() int { return int(binary.BigEndian.Uint16(d.udp[4:])) }

// pseudo returns the sum of a pseudo-header.
func (d datagram) pseudo(length int) uint32 {
	addresses := d.packet[12:20]
	if d.packet[0]>>4 == 6 {
		addresses = d.packet[8:40]
	}
	return addUp(addresses) + unix.IPPROTO_UDP + uint32(length)
}

// checksum of a datagram from its header on, whose field begins with a value.
func (d datagram) checksum(initial uint32, bytes []byte) uint16 {
	return fold(addUp(bytes) - uint32(binary.BigEndian.Uint16(bytes[6:])) + initial)
}

// fold makes a checksum of a sum.
func fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func addUp(bytes []byte) (sum uint32) {
	for i := 0; i+1 < len(bytes); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(bytes[i:]))
	}
	if len(bytes)%2 == 1 {
		sum += uint32(bytes[len(bytes)-1]) << 8
	}
	return sum
}

// Ways in which cards compute the checksum of a datagram. The first is that of cards which
// know no protocols, the next two of those that make the pseudo-header themselves. The last
// confuses the two ends of a datagram with UDP options.
var (
	bySum = func(d datagram) uint16 {
		return d.checksum(uint32(binary.BigEndian.Uint16(d.udp[6:])), d.udp)
	}
	byUDPLength = func(d datagram) uint16 { return d.checksum(d.pseudo(d.length()), d.udp[:d.length()]) }
	byIPLength  = func(d datagram) uint16 { return d.checksum(d.pseudo(len(d.udp)), d.udp) }
	confused    = func(d datagram) uint16 { return d.checksum(d.pseudo(d.length()), d.udp) }
)

// header is struct virtio_net_hdr, which precedes each packet.
const (
	headerLength  = 10
	needsChecksum = 1
	startAt       = 6
	offsetAt      = 8

	udpChecksumAt = 6 // in the UDP header
)

// send forwards packets from one device to another, with their checksums.
func (c *card) send(from, to *os.File) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		c.complete(buffer[:n])
		clear(buffer[:headerLength])
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// complete writes the checksum of a datagram; what it adds up in other packets begins at
// their transport, too.
func (c *card) complete(frame []byte) {
	if frame[0]&needsChecksum == 0 {
		return
	}
	packet := frame[headerLength:]
	start, offset := binary.NativeEndian.Uint16(frame[startAt:]), binary.NativeEndian.Uint16(frame[offsetAt:])
	part := packet[start:]
	value := fold(addUp(part)) // the field is part of the sum
	if d := (datagram{packet, part}); offset == udpChecksumAt && d.length() <= len(part) {
		if d.length() < len(part) {
			c.surplus.Add(1)
		}
		if value = c.sum(d); value == 0 {
			value = 0xffff
		}
	}
	binary.BigEndian.PutUint16(part[offset:], value)
}

// insertCards connects a and b by cards; that of a is c.
func (b *bed) insertCards(c *card) {
	b.t.Helper()
	checksums := func(fd int) error { return unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM) }
	near := b.tunWith("a", "card", "10.77.1.1/24", "fd77:0:0:1::1/64", unix.IFF_VNET_HDR, checksums)
	far := b.tunWith("b", "card", "10.77.1.2/24", "fd77:0:0:1::2/64", unix.IFF_VNET_HDR, checksums)
	go c.send(near, far)
	go (&card{sum: bySum}).send(far, near)
}

// Path probes exercise the checksums that a network card computes. One that computes those
// of datagrams with UDP options incorrectly takes nothing from applications: the source names
// the card as the cause and uses the next encoding.
func TestPathValidationOfCards(t *testing.T) {
	t.Parallel() // it mostly waits
	pathValidationOfCards(t, false)
}

// pathValidationOfCards tries each card over one IP version and with one kind of destination, or,
// long, in all other combinations.
func pathValidationOfCards(t *testing.T, long bool) {
	for _, row := range []struct {
		name    string
		sum     func(datagram) uint16
		passes  bool
		family  string
		pillion bool
	}{
		{"sums to the end", bySum, true, "ipv6", true}, {"sums to the UDP length", byUDPLength, true, "ipv4", false},
		{"sums to the IP length", byIPLength, true, "ipv6", false}, {"confuses the lengths", confused, false, "ipv4", true},
	} {
		for family, address := range toB {
			for _, pillion := range []bool{true, false} {
				if long == (family == row.family && pillion == row.pillion) {
					continue
				}
				t.Run(row.name+" "+family+map[bool]string{true: "", false: " host without Pillion"}[pillion], func(t *testing.T) {
					t.Parallel() // it mostly waits
					b := up(t, "hosts: {a: {}, b: {}}\nlinks: []\n")
					c := &card{sum: row.sum}
					b.insertCards(c)
					if pillion {
						b.probe("b", "destination", "card", "--interval", "50ms")
					}
					s := b.probe("a", "source", "card", validated)
					flow := b.open("a", "b", netip.AddrPortFrom(address, 9000))
					state, uses := "checksum", fallback[family]
					if row.passes {
						state, uses = "passed", "udp-option"
					} else if family == "ipv4" && !pillion {
						uses = "" // no other encoding of IPv4 is read by such a host
					}
					sent := flow.used(s, "udp-option", state)
					if uses != "" {
						sent += flow.used(s, uses, "passed")
					}
					if c.surplus.Load() == 0 {
						t.Error("the card computed no checksum of a marked datagram")
					}
					flow.send(100, 32000)
					flow.receive(sent + 100)
					var marked sourceSummary
					if s.finish(&marked); (marked.Marked >= 100) != (uses != "") {
						t.Errorf("%+v", marked)
					}
				})
			}
		}
	}
}
