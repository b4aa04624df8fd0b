package reply

import (
	"encoding/binary"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"pillion.dev/send/frame"
)

// stride is the distance of the TCP sequence numbers of two packets. It is longer than any
// payload, so an acknowledgement tells which packet it is for.
const stride = 4096

// Number makes a header name the packet with an index: in the identification of IPv4, the
// sequence number of ICMP, and the sequence and acknowledgement numbers of TCP.
func Number(h *frame.Header, index uint32) {
	h.ID = uint16(index)
	if h.Protocol == frame.ICMP {
		h.Sequence = uint32(uint16(index))
		return
	}
	h.Sequence, h.Acknowledgement = index*stride, index*stride
}

// answer is what a received packet says: the index of the packet it answers, modulo wrap,
// or that packet's tag.
type answer struct {
	kind  Kind
	from  netip.Addr
	index uint32
	wrap  uint64 // 0: it has a tag
	tag   frame.Tag
}

// Widths of the indexes: 16 bits in ICMP and IPv4, 20 bits above the stride in TCP.
const (
	wrap16  = 1 << 16
	wrapTCP = 1 << 32 / stride
)

// match reads a received frame from its link-layer header on and says which packet of the
// flow it answers, if any.
func match(h *frame.Header, b []byte) (answer, bool) {
	p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.DecodeOptions{NoCopy: true, Lazy: true})
	network := p.NetworkLayer()
	if network == nil {
		return answer{}, false
	}
	source, destination := network.NetworkFlow().Endpoints()
	from, _ := netip.AddrFromSlice(source.Raw())
	to, _ := netip.AddrFromSlice(destination.Raw())
	if to != h.Source {
		return answer{}, false
	}
	a := answer{from: from}
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *layers.TCP:
			return a, a.tcp(h, l)
		case *layers.ICMPv4:
			return a, a.icmp4(h, l)
		case *layers.ICMPv6:
			return a, a.icmp6(h, l)
		}
	}
	return answer{}, false
}

func (a *answer) tcp(h *frame.Header, l *layers.TCP) bool {
	if h.Protocol != frame.TCP || a.from != h.Destination || uint16(l.SrcPort) != h.DestinationPort || uint16(l.DstPort) != h.SourcePort {
		return false
	}
	a.wrap = wrapTCP
	switch {
	case l.RST && l.ACK:
		a.kind, a.index = Reset, (l.Ack-1)/stride
	case l.RST: // of a segment with ACK: its sequence number is our acknowledgement (RFC 9293, 3.10.7.1)
		a.kind, a.index = Reset, l.Seq/stride
	case l.SYN && l.ACK:
		a.kind, a.index = SynAck, (l.Ack-1)/stride
	case l.ACK:
		a.kind, a.index = Ack, (l.Ack-1)/stride
	default:
		return false
	}
	return true
}

func (a *answer) icmp4(h *frame.Header, l *layers.ICMPv4) bool {
	switch l.TypeCode.Type() {
	case layers.ICMPv4TypeEchoReply:
		return a.echo(h, l.Id, l.Seq)
	case layers.ICMPv4TypeDestinationUnreachable:
		a.kind = Unreachable
	case layers.ICMPv4TypeTimeExceeded:
		a.kind = TimeExceeded
	default:
		return false
	}
	quoted := l.Payload // the packet that caused the error: its IP header and at least 8 bytes (RFC 792)
	if len(quoted) < 20 || !h.Source.Is4() {
		return false
	}
	head := int(quoted[0]&15) * 4
	if len(quoted) < head+8 || netip.AddrFrom4([4]byte(quoted[16:20])) != h.Destination || !quotes(h, quoted[9], quoted[head:]) {
		return false
	}
	a.index, a.wrap = uint32(binary.BigEndian.Uint16(quoted[4:])), wrap16
	return true
}

func (a *answer) icmp6(h *frame.Header, l *layers.ICMPv6) bool {
	body := l.Payload
	if len(body) < 4 {
		return false
	}
	switch l.TypeCode.Type() {
	case layers.ICMPv6TypeEchoReply:
		return a.echo(h, binary.BigEndian.Uint16(body), binary.BigEndian.Uint16(body[2:]))
	case layers.ICMPv6TypeDestinationUnreachable:
		a.kind = Unreachable
	case layers.ICMPv6TypeTimeExceeded:
		a.kind = TimeExceeded
	default:
		return false
	}
	const head = 40
	quoted := body[4:]
	if len(quoted) < head+8 || netip.AddrFrom16([16]byte(quoted[24:40])) != h.Destination || !quotes(h, quoted[6], quoted[head:]) {
		return false
	}
	transport := quoted[head:]
	switch h.Protocol {
	case frame.TCP:
		a.index, a.wrap = binary.BigEndian.Uint32(transport[4:])/stride, wrapTCP
	case frame.ICMP:
		a.index, a.wrap = uint32(binary.BigEndian.Uint16(transport[6:])), wrap16
	default: // IPv6 and UDP have no number
		payload := transport
		if h.Protocol != frame.Raw {
			payload = transport[8:]
		}
		var tagged bool
		a.tag, tagged = frame.ReadTag(payload)
		return tagged
	}
	return true
}

func (a *answer) echo(h *frame.Header, identifier, sequence uint16) bool {
	a.kind, a.index, a.wrap = EchoReply, uint32(sequence), wrap16
	return h.Protocol == frame.ICMP && a.from == h.Destination && identifier == h.Identifier
}

// quotes reports whether a quoted transport header is one of the flow's.
func quotes(h *frame.Header, protocol byte, b []byte) bool {
	source, destination := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	switch h.Protocol {
	case "", frame.UDP:
		return protocol == byte(layers.IPProtocolUDP) && source == h.SourcePort && destination == h.DestinationPort
	case frame.TCP:
		return protocol == byte(layers.IPProtocolTCP) && source == h.SourcePort && destination == h.DestinationPort
	case frame.ICMP:
		return (protocol == byte(layers.IPProtocolICMPv4) || protocol == byte(layers.IPProtocolICMPv6)) && binary.BigEndian.Uint16(b[4:]) == h.Identifier
	}
	return protocol == h.Number
}
