package frame

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Limits of a frame's length in bytes, without its frame check sequence (IEEE 802.3).
const (
	MinBytes = 60
	MaxBytes = 1514
)

// Protocols that a header can have above IP.
const (
	UDP  = "udp"
	TCP  = "tcp"
	ICMP = "icmp"
	Raw  = "raw" // an IP protocol number, without a transport header
)

// ErrHeader marks an invalid header or size.
var ErrHeader = errors.New("invalid header")

// Header describes the headers of a packet. Zero values leave fields at their usual
// defaults where one is named.
type Header struct {
	SourceMAC, DestinationMAC net.HardwareAddr
	VLANs                     []uint16 // IEEE 802.1Q tag control information, outermost first
	Source, Destination       netip.Addr
	HopLimit                  uint8  // TTL of IPv4; 0: 64
	TrafficClass              uint8  // DSCP in the upper six bits, ECN in the lower two
	FlowLabel                 uint32 // IPv6, 20 bits
	DontFragment              bool   // IPv4
	ID                        uint16 // identification of IPv4
	Protocol                  string // empty: UDP
	Number                    uint8  // IP protocol number of Raw
	SourcePort                uint16
	DestinationPort           uint16
	TCPFlags                  string // of "SAFRPU"; empty: S
	Sequence, Acknowledgement uint32 // TCP
	Identifier                uint16 // ICMP echo request
}

// Overhead is the number of bytes before the payload.
func (h *Header) Overhead() (int, error) {
	b, err := h.serialise(make([]byte, MinBytes)) // without padding
	return len(b) - MinBytes, err
}

// Build makes a frame of size bytes. The payload is the given one, padded with zeros;
// a nil payload has a tag where it fits.
func (h *Header) Build(size int, payload []byte) (*Template, error) {
	overhead, err := h.Overhead()
	if err != nil {
		return nil, err
	}
	if least := max(MinBytes, overhead+len(payload)); size < least || size > MaxBytes {
		return nil, fmt.Errorf("%w: size %d is outside %d, which headers and payload need, to %d bytes", ErrHeader, size, least, MaxBytes)
	}
	body := make([]byte, size-overhead)
	copy(body, payload)
	t := &Template{}
	if payload == nil && len(body) >= PatchBytes {
		patch := Tag{}.Patch()
		copy(body, patch[:])
		t.PatchAt = overhead
	}
	t.Bytes, err = h.serialise(body)
	return t, err
}

// Complete makes a template of a frame that the user built, padded to MinBytes.
func Complete(b []byte) (*Template, error) {
	const ethernet = 14
	if len(b) < ethernet || len(b) > MaxBytes {
		return nil, fmt.Errorf("%w: frame length outside %d to %d bytes", ErrHeader, ethernet, MaxBytes)
	}
	if len(b) < MinBytes {
		b = append(make([]byte, 0, MinBytes), b...)[:MinBytes]
	}
	return &Template{Bytes: b}, nil
}

func (h *Header) serialise(payload []byte) ([]byte, error) {
	list, err := h.layers()
	if err != nil {
		return nil, err
	}
	b := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(b, options, append(list, gopacket.Payload(payload))...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	return b.Bytes(), nil
}

func (h *Header) layers() ([]gopacket.SerializableLayer, error) {
	if !h.Source.IsValid() || !h.Destination.IsValid() || h.Source.Is4() != h.Destination.Is4() {
		return nil, fmt.Errorf("%w: addresses %v and %v: both must be IPv4 or IPv6", ErrHeader, h.Source, h.Destination)
	}
	list := h.link()
	transport, number, err := h.transport()
	if err != nil {
		return nil, err
	}
	hops := h.HopLimit
	if hops == 0 {
		hops = 64
	}
	var network gopacket.NetworkLayer
	if h.Source.Is4() {
		ip := &layers.IPv4{
			Version: 4, TOS: h.TrafficClass, TTL: hops, Protocol: number, Id: h.ID,
			SrcIP: h.Source.AsSlice(), DstIP: h.Destination.AsSlice(),
		}
		if h.DontFragment {
			ip.Flags = layers.IPv4DontFragment
		}
		network, list = ip, append(list, ip)
	} else {
		ip := &layers.IPv6{
			Version: 6, TrafficClass: h.TrafficClass, FlowLabel: h.FlowLabel & 0xfffff, HopLimit: hops,
			NextHeader: number, SrcIP: h.Source.AsSlice(), DstIP: h.Destination.AsSlice(),
		}
		network, list = ip, append(list, ip)
	}
	for _, l := range transport {
		if summed, ok := l.(interface {
			SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
		}); ok {
			if err := summed.SetNetworkLayerForChecksum(network); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrHeader, err)
			}
		}
		list = append(list, l)
	}
	return list, nil
}

// link is the Ethernet header and the VLAN tags.
func (h *Header) link() []gopacket.SerializableLayer {
	network := layers.EthernetTypeIPv6
	if h.Source.Is4() {
		network = layers.EthernetTypeIPv4
	}
	ethernet := &layers.Ethernet{SrcMAC: orZero(h.SourceMAC), DstMAC: orZero(h.DestinationMAC), EthernetType: network}
	list := []gopacket.SerializableLayer{ethernet}
	next := &ethernet.EthernetType
	for _, tag := range h.VLANs {
		*next = layers.EthernetTypeDot1Q
		vlan := &layers.Dot1Q{Priority: uint8(tag >> 13), DropEligible: tag&0x1000 != 0, VLANIdentifier: tag & 0xfff, Type: network}
		list, next = append(list, vlan), &vlan.Type
	}
	return list
}

func orZero(a net.HardwareAddr) net.HardwareAddr {
	if len(a) == 6 {
		return a
	}
	return make(net.HardwareAddr, 6)
}

// transport is the header above IP, and its number.
func (h *Header) transport() ([]gopacket.SerializableLayer, layers.IPProtocol, error) {
	switch h.Protocol {
	case "", UDP:
		udp := &layers.UDP{SrcPort: layers.UDPPort(h.SourcePort), DstPort: layers.UDPPort(h.DestinationPort)}
		return []gopacket.SerializableLayer{udp}, layers.IPProtocolUDP, nil
	case TCP:
		tcp, err := h.tcp()
		return []gopacket.SerializableLayer{tcp}, layers.IPProtocolTCP, err
	case ICMP:
		if h.Source.Is4() {
			echo := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(layers.ICMPv4TypeEchoRequest, 0), Id: h.Identifier, Seq: uint16(h.Sequence)}
			return []gopacket.SerializableLayer{echo}, layers.IPProtocolICMPv4, nil
		}
		head := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(layers.ICMPv6TypeEchoRequest, 0)}
		echo := &layers.ICMPv6Echo{Identifier: h.Identifier, SeqNumber: uint16(h.Sequence)}
		return []gopacket.SerializableLayer{head, echo}, layers.IPProtocolICMPv6, nil
	case Raw:
		return nil, layers.IPProtocol(h.Number), nil
	}
	return nil, 0, fmt.Errorf("%w: protocol %q: udp, tcp, icmp or raw", ErrHeader, h.Protocol)
}

func (h *Header) tcp() (*layers.TCP, error) {
	tcp := &layers.TCP{
		SrcPort: layers.TCPPort(h.SourcePort), DstPort: layers.TCPPort(h.DestinationPort),
		Seq: h.Sequence, Ack: h.Acknowledgement, Window: 65535,
	}
	flags := h.TCPFlags
	if flags == "" {
		flags = "S"
	}
	for _, f := range flags {
		set, ok := map[rune]*bool{'S': &tcp.SYN, 'A': &tcp.ACK, 'F': &tcp.FIN, 'R': &tcp.RST, 'P': &tcp.PSH, 'U': &tcp.URG}[f]
		if !ok {
			return nil, fmt.Errorf("%w: TCP flag %q: must be letters of SAFRPU", ErrHeader, f)
		}
		*set = true
	}
	return tcp, nil
}
