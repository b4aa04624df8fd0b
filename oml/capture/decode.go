package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"pillion.dev/measure"
)

// Packet is a captured packet.
type Packet struct {
	Time time.Time
	Link layers.LinkType
	// Data is the captured part, Length the length on the wire, bytes.
	Data   []byte
	Length int
	// VLAN is the tag that the kernel removed; nil without one.
	VLAN *uint16
}

// Datagram is a captured UDP datagram, not fragmented or the first fragment.
type Datagram struct {
	Time     time.Time
	Src, Dst netip.AddrPort
	// Payload is the captured part of it; Length is its length on the wire, bytes.
	Payload []byte
	Length  int
}

// Sink takes a row of a point. The sample is reused afterwards.
type Sink func(schema *measure.Schema, sample measure.Sample)

// decoder turns packets into rows.
type decoder struct {
	sink Sink // nil: none
	// datagram takes UDP datagrams; nil: none.
	datagram func(Datagram)
	// src and dst are of the IP header.
	src, dst net.IP
	device   string // or the file
	id       uint64
	sample   measure.Sample
	packet   Packet
	rows     int
	short    bool

	radiotap layers.RadioTap
	ethernet layers.Ethernet
	cooked   layers.LinuxSLL
	tag      layers.Dot1Q
	ip4      layers.IPv4
	ip6      layers.IPv6
	tcp      layers.TCP
	udp      layers.UDP
}

// outcome is the result of decoding a packet.
type outcome struct {
	rows int
	// reason why it was not decoded completely; empty if it was.
	reason string
}

var (
	errLink  = errors.New("unsupported link layer")
	errShort = errors.New("truncated")
)

// SetTruncated is called by a layer that is shorter than its header says.
func (d *decoder) SetTruncated() { d.short = true }

// decode reports the headers of a packet.
func (d *decoder) decode(p Packet) (o outcome) {
	d.packet, d.rows, d.short = p, 0, false
	d.id++
	defer func() {
		o.rows = d.rows
		if recover() != nil { // neither packets nor the library are trusted
			o.reason = reasonMalformed
		}
	}()
	switch err := d.link(p.Link, p.Data); {
	case err == nil:
	case errors.Is(err, errLink):
		o.reason = reasonLink
	case errors.Is(err, errShort), d.short, len(p.Data) < p.Length:
		o.reason = reasonShort
	default:
		o.reason = reasonMalformed
	}
	return o
}

func (d *decoder) link(link layers.LinkType, data []byte) error {
	switch link {
	case layers.LinkTypeEthernet:
		return d.frame(data)
	case layers.LinkTypeIEEE80211Radio:
		return d.radio(data)
	case layers.LinkTypeRaw, layers.LinkTypeIPv4, layers.LinkTypeIPv6, 12, 14: // raw IP of some systems
		return d.network(data)
	case layers.LinkTypeNull, layers.LinkTypeLoop:
		if len(data) < 4 {
			return errShort
		}
		return d.network(data[4:])
	case layers.LinkTypeLinuxSLL:
		if err := d.cooked.DecodeFromBytes(data, d); err != nil {
			return err
		}
		return d.typed(d.cooked.EthernetType, d.cooked.Payload)
	case layers.LinkTypeLinuxSLL2:
		const header = 20
		if len(data) < header {
			return errShort
		}
		return d.typed(layers.EthernetType(binary.BigEndian.Uint16(data)), data[header:])
	}
	return errLink
}

// typed decodes the payload of an EtherType if it is IP.
func (d *decoder) typed(t layers.EthernetType, data []byte) error {
	if t == layers.EthernetTypeIPv4 || t == layers.EthernetTypeIPv6 {
		return d.network(data)
	}
	return nil
}

// report reports a header; the first fields are common to all points.
func (d *decoder) report(schema *measure.Schema, values ...measure.Value) {
	d.sample = append(d.sample[:0], measure.TimeValue(d.packet.Time), measure.Uint64Value(d.id), measure.StringValue(d.device))
	d.sample = append(d.sample, values...)
	d.rows++
	if d.sink != nil {
		d.sink(schema, d.sample)
	}
}

func number[N ~uint8 | ~uint16 | ~uint32 | ~int](n N) measure.Value {
	return measure.Uint32Value(uint32(n))
}

func (d *decoder) frame(data []byte) error {
	if len(data) < 14 {
		return errShort
	}
	if err := d.ethernet.DecodeFromBytes(data, d); err != nil {
		return err
	}
	kind, payload, vlan := d.ethernet.EthernetType, d.ethernet.Payload, measure.Value{}
	if d.packet.VLAN != nil {
		vlan = number(*d.packet.VLAN)
	}
	var broken error
	for kind == layers.EthernetTypeDot1Q || kind == layers.EthernetTypeQinQ {
		if broken = d.tag.DecodeFromBytes(payload, d); broken != nil {
			break
		}
		if vlan.IsNull() {
			vlan = number(d.tag.VLANIdentifier)
		}
		kind, payload = d.tag.Type, d.tag.Payload
	}
	etherType := kind
	if d.ethernet.EthernetType == layers.EthernetTypeLLC {
		etherType = 0
	}
	d.report(&Ethernet, measure.StringValue(d.ethernet.SrcMAC.String()), measure.StringValue(d.ethernet.DstMAC.String()),
		number(etherType), vlan, number(d.packet.Length))
	if broken != nil {
		return broken
	}
	return d.typed(kind, payload)
}

func (d *decoder) network(data []byte) error {
	if len(data) == 0 {
		return errShort
	}
	switch data[0] >> 4 {
	case 4:
		return d.version4(data)
	case 6:
		return d.version6(data)
	}
	return fmt.Errorf("IP version %d", data[0]>>4)
}

func (d *decoder) version4(data []byte) error {
	if err := d.ip4.DecodeFromBytes(data, d); err != nil {
		return err
	}
	ip := &d.ip4
	d.src, d.dst = ip.SrcIP, ip.DstIP
	d.report(&IP, number(ip.Version), measure.StringValue(ip.SrcIP.String()), measure.StringValue(ip.DstIP.String()),
		number(ip.Protocol), number(ip.TOS), number(ip.TTL), number(ip.Length), number(ip.Id),
		number(uint32(ip.FragOffset)*8), measure.BoolValue(ip.Flags&layers.IPv4MoreFragments != 0), number(ip.Checksum), measure.Value{})
	if ip.FragOffset != 0 {
		return nil // a later fragment has no transport header
	}
	return d.transport(ip.Protocol, ip.Payload, int(ip.Length)-len(ip.Contents))
}

// extensions are the extension headers of an IPv6 packet.
type extensions struct {
	protocol       layers.IPProtocol
	id, offset     uint32
	fragment, more bool
	payload        []byte
	length         int // of all extension headers
}

// skip skips extension headers of the common format (RFC 8200, 4).
func skip(next layers.IPProtocol, data []byte) (extensions, error) {
	e := extensions{protocol: next, payload: data}
	for {
		size := 8
		switch e.protocol {
		case layers.IPProtocolIPv6HopByHop, layers.IPProtocolIPv6Routing, layers.IPProtocolIPv6Destination:
			if len(e.payload) < 2 {
				return e, errShort
			}
			size = 8 + 8*int(e.payload[1])
		case layers.IPProtocolIPv6Fragment:
		default:
			return e, nil
		}
		if len(e.payload) < size {
			return e, errShort
		}
		if h := e.payload; e.protocol == layers.IPProtocolIPv6Fragment {
			e.fragment = true
			e.offset = uint32(h[2])<<8 | uint32(h[3])&^7
			e.more = h[3]&1 != 0
			e.id = uint32(h[4])<<24 | uint32(h[5])<<16 | uint32(h[6])<<8 | uint32(h[7])
		}
		e.protocol, e.payload, e.length = layers.IPProtocol(e.payload[0]), e.payload[size:], e.length+size
		if e.offset != 0 {
			return e, nil
		}
	}
}

func (d *decoder) version6(data []byte) error {
	if err := d.ip6.DecodeFromBytes(data, d); err != nil {
		return err
	}
	ip := &d.ip6
	d.src, d.dst = ip.SrcIP, ip.DstIP
	e, broken := skip(ip.NextHeader, ip.Payload)
	id := measure.Value{}
	if e.fragment {
		id = number(e.id)
	}
	d.report(&IP, number(ip.Version), measure.StringValue(ip.SrcIP.String()), measure.StringValue(ip.DstIP.String()),
		number(e.protocol), number(ip.TrafficClass), number(ip.HopLimit), number(int(ip.Length)+40), id,
		number(e.offset), measure.BoolValue(e.more), measure.Value{}, number(ip.FlowLabel))
	if broken != nil || e.offset != 0 {
		return broken
	}
	return d.transport(e.protocol, e.payload, int(ip.Length)-e.length)
}

// transport reports TCP and UDP headers; length is the length of header and data.
func (d *decoder) transport(protocol layers.IPProtocol, data []byte, length int) error {
	switch protocol {
	case layers.IPProtocolTCP:
		if len(data) < 20 {
			return errShort
		}
		t := &d.tcp
		if err := t.DecodeFromBytes(data, d); err != nil {
			return err
		}
		length = max(length, 0)
		d.report(&TCP, number(t.SrcPort), number(t.DstPort), number(t.Seq), number(t.Ack), measure.StringValue(flags(t)),
			number(t.Window), number(t.Checksum), number(t.Urgent), number(length), number(max(length-len(t.Contents), 0)))
	case layers.IPProtocolUDP:
		if len(data) < 8 {
			return errShort
		}
		u := &d.udp
		if err := u.DecodeFromBytes(data, d); err != nil {
			return err
		}
		d.report(&UDP, number(u.SrcPort), number(u.DstPort), number(u.Length), number(u.Checksum))
		if d.datagram != nil {
			d.datagram(Datagram{
				Time: d.packet.Time, Src: endpoint(d.src, uint16(u.SrcPort)), Dst: endpoint(d.dst, uint16(u.DstPort)),
				Payload: u.Payload, Length: max(int(u.Length)-8, 0),
			})
		}
	}
	return nil
}

func endpoint(address net.IP, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice(address)
	return netip.AddrPortFrom(a.Unmap(), port)
}

func flags(t *layers.TCP) string {
	var text [9]byte
	n := 0
	for i, set := range [...]bool{t.FIN, t.SYN, t.RST, t.PSH, t.ACK, t.URG, t.ECE, t.CWR, t.NS} {
		if set {
			text[n] = "FSRPAUECN"[i]
			n++
		}
	}
	return string(text[:n])
}

// radio reports the radiotap header, then the headers of the IP packet in a data frame.
func (d *decoder) radio(data []byte) error {
	if err := d.radiotap.DecodeFromBytes(data, d); err != nil {
		return err
	}
	values := make([]measure.Value, 7, 8)
	if r := &d.radiotap; len(r.Present) > 0 && len(r.RadioTapValues) > 0 {
		has, v := r.Present[0], &r.RadioTapValues[0]
		for i, field := range []struct {
			present bool
			value   measure.Value
		}{
			{has.TSFT(), measure.Uint64Value(v.TSFT)},
			{has.Rate(), measure.Float64Value(float64(v.Rate) / 2)},
			{has.Channel(), number(v.ChannelFrequency)},
			{has.DBMAntennaSignal(), measure.Int32Value(int32(v.DBMAntennaSignal))},
			{has.DBMAntennaNoise(), measure.Int32Value(int32(v.DBMAntennaNoise))},
			{has.DBMTxPower(), measure.Int32Value(int32(v.DBMTxPower))},
			{has.Antenna(), number(v.Antenna)},
		} {
			if field.present {
				values[i] = field.value
			}
		}
	}
	d.report(&Radiotap, append(values, number(d.packet.Length))...)
	inner := gopacket.NewPacket(d.radiotap.Payload, layers.LayerTypeDot11, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	if snap, ok := inner.Layer(layers.LayerTypeSNAP).(*layers.SNAP); ok {
		return d.typed(snap.Type, snap.Payload)
	}
	if failed := inner.ErrorLayer(); failed != nil {
		return failed.Error()
	}
	return nil
}

// idStart is a random first packet ID, so that the IDs of two runs do not collide. It is
// never 0, which OML takes for a missing guid.
func idStart(random uint64) uint64 { return random & (math.MaxInt64 >> 1) }
