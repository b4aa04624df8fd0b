package frame

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"reflect"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

var headers = map[string]Header{
	"udp, ipv4":       {Source: netip.MustParseAddr("192.0.2.1"), Destination: netip.MustParseAddr("192.0.2.2"), SourcePort: 1, DestinationPort: 9, TrafficClass: 0xb8, HopLimit: 3, DontFragment: true},
	"udp, ipv6, vlan": {Source: netip.MustParseAddr("2001:db8::1"), Destination: netip.MustParseAddr("2001:db8::2"), DestinationPort: 9, FlowLabel: 0xabcde, VLANs: []uint16{0x2064, 5}},
	"tcp, ipv6":       {Source: netip.MustParseAddr("2001:db8::1"), Destination: netip.MustParseAddr("2001:db8::2"), Protocol: TCP, DestinationPort: 80, TCPFlags: "PA", Sequence: 7},
	"tcp, ipv4":       {Source: netip.MustParseAddr("192.0.2.1"), Destination: netip.MustParseAddr("192.0.2.2"), Protocol: TCP, DestinationPort: 80},
	"icmp, ipv4":      {Source: netip.MustParseAddr("192.0.2.1"), Destination: netip.MustParseAddr("192.0.2.2"), Protocol: ICMP, Identifier: 5, Sequence: 9},
	"icmp, ipv6":      {Source: netip.MustParseAddr("2001:db8::1"), Destination: netip.MustParseAddr("2001:db8::2"), Protocol: ICMP, Identifier: 5, Sequence: 9},
	"raw, ipv4":       {Source: netip.MustParseAddr("192.0.2.1"), Destination: netip.MustParseAddr("192.0.2.2"), Protocol: Raw, Number: 253},
}

// Every tag leaves the checksums of the frame right; the oracle is gopacket, which
// computes them again.
func TestTagKeepsChecksums(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, h := range headers {
		t.Run(name, func(t *testing.T) {
			template, err := h.Build(200, nil)
			if err != nil || len(template.Bytes) != 200 || template.PatchAt == 0 {
				t.Fatalf("%+v, %v", template, err)
			}
			for range 2000 {
				tag := Tag{random.Uint32() >> random.IntN(32), random.Uint32() >> random.IntN(32), random.Uint64() >> random.IntN(64)}
				b := Frame{template, tag.Patch()}.AppendTo(nil)
				if read, ok := ReadTag(b[template.PatchAt:]); !ok || read != tag {
					t.Fatalf("read %+v, %v; want %+v", read, ok, tag)
				}
				h.checkSums(t, b, template.PatchAt)
			}
		})
	}
}

func (h Header) checkSums(t *testing.T, b []byte, payload int) {
	t.Helper()
	again, err := h.serialise(b[payload:])
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(b) {
		t.Fatalf("checksums of\n%x differ from those of\n%x", b, again)
	}
}

func TestBuildFields(t *testing.T) {
	h := headers["udp, ipv6, vlan"]
	template, err := h.Build(1514, []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	p := gopacket.NewPacket(template.Bytes, layers.LayerTypeEthernet, gopacket.Default)
	vlan, ip, udp := p.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q), p.Layer(layers.LayerTypeIPv6).(*layers.IPv6), p.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if vlan.VLANIdentifier != 0x64 || vlan.Priority != 1 || ip.FlowLabel != 0xabcde || ip.HopLimit != 64 || udp.DstPort != 9 {
		t.Errorf("%v", p)
	}
	if template.PatchAt != 0 || string(udp.Payload[:7]) != "payload" || binary.BigEndian.Uint16(template.Bytes[12:]) != 0x8100 {
		t.Errorf("%v", p)
	}
}

func TestBuildRefuses(t *testing.T) {
	udp := headers["udp, ipv4"]
	mixed, unknown, flags := udp, udp, headers["tcp, ipv4"]
	mixed.Destination = netip.MustParseAddr("::1")
	unknown.Protocol = "sctp"
	flags.TCPFlags = "X"
	for name, row := range map[string]struct {
		header Header
		size   int
	}{
		"too short": {udp, 41}, "too long": {udp, 1515}, "families": {mixed, 100}, "protocol": {unknown, 100}, "flags": {flags, 100},
	} {
		if _, err := row.header.Build(row.size, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestDatagram reads back the headers that were built, and refuses what a UDP socket cannot send.
func TestDatagram(t *testing.T) {
	for name, h := range headers {
		h.SourceMAC, h.SourcePort, h.VLANs, h.FlowLabel = net.HardwareAddr{2, 0, 0, 0, 0, 1}, 5, nil, 0
		template, err := h.Build(100, []byte("payload"))
		if err != nil {
			t.Fatal(err)
		}
		d, err := template.Datagram()
		if h.Protocol != "" {
			if !errors.Is(err, ErrDatagram) {
				t.Errorf("%s: %+v, %v", name, d, err)
			}
			continue
		}
		hops := h.HopLimit
		if hops == 0 {
			hops = 64
		}
		want := Datagram{
			SourceMAC: h.SourceMAC, Source: netip.AddrPortFrom(h.Source, 5), Destination: netip.AddrPortFrom(h.Destination, 9),
			HopLimit: hops, TrafficClass: h.TrafficClass, DontFragment: h.DontFragment, End: 100,
		}
		want.PayloadAt, err = h.Overhead()
		if err != nil || !reflect.DeepEqual(d, &want) || string(template.Bytes[d.PayloadAt:d.PayloadAt+7]) != "payload" {
			t.Errorf("%s: %+v, want %+v, %v", name, d, want, err)
		}
	}
	for name, h := range map[string]Header{"vlan": {VLANs: []uint16{3}}, "flow label": {FlowLabel: 1}} {
		h.Source, h.Destination, h.SourcePort, h.DestinationPort = netip.IPv6Loopback(), netip.IPv6Loopback(), 1, 2
		template, err := h.Build(100, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := template.Datagram(); !errors.Is(err, ErrDatagram) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDatagram(f *testing.F) {
	for _, h := range headers {
		template, err := h.Build(100, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(template.Bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := (&Template{Bytes: b}).Datagram()
		if err == nil && (d.PayloadAt > d.End || d.End > len(b)) {
			t.Errorf("%+v of %d bytes", d, len(b))
		}
	})
}
