package trace

import (
	"bytes"
	"net/netip"
	"testing"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

var (
	near4, distant4 = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("192.0.2.9")
	near6, distant6 = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("2001:db8::9")
)

var flows = map[string]struct {
	source, destination netip.Addr
	protocol            string
}{
	"IPv4 UDP": {near4, distant4, UDP}, "IPv4 ICMP": {near4, distant4, ICMP},
	"IPv6 UDP": {near6, distant6, UDP}, "IPv6 ICMP": {near6, distant6, ICMP},
}

// Every field that routers may hash must be the same in all probes, also of another trace;
// the checksum of each must be correct.
func TestFlowIsConstant(t *testing.T) {
	for name, test := range flows {
		t.Run(name, func(t *testing.T) {
			numbered := func(number uint16) *flow { return newFlow(test.source, test.destination, test.protocol, number) }
			first, again, other := numbered(0), numbered(0), numbered(1)
			header := length4
			if test.source.Is6() {
				header = length6
			}
			want := first.packet(1, 0)
			for _, f := range []*flow{first, again} {
				for number := range 3000 {
					got := f.packet(number%255+1, number)
					if len(got) != len(want) || !bytes.Equal(got[header:header+8], want[header:header+8]) {
						t.Fatalf("probe %d: got %x behind the IP header, want %x", number, got[header:], want[header:])
					}
					if test.source.Is6() && !bytes.Equal(got[:7], want[:7]) {
						t.Fatalf("probe %d: got IPv6 header %x, want %x", number, got[:40], want[:40])
					}
					if sum(got[header:], f.pseudo()) != 0xffff {
						t.Fatalf("probe %d: checksum of %x is wrong", number, got[header:])
					}
				}
			}
			if bytes.Equal(other.packet(1, 0)[header:header+8], want[header:header+8]) {
				t.Error("another flow has the same header")
			}
			if first.token == again.token {
				t.Error("two traces have the same token")
			}
		})
	}
}

// The oracle is golang.org/x/net.
func TestPacketRoundTrip(t *testing.T) {
	for name, test := range flows {
		t.Run(name, func(t *testing.T) {
			f := newFlow(test.source, test.destination, test.protocol, 7)
			packet := f.packet(9, 42)
			var body []byte
			if test.source.Is4() {
				h, err := ipv4.ParseHeader(packet)
				if err != nil {
					t.Fatal(err)
				}
				if h.TTL != 9 || h.TotalLen != len(packet) || h.ID != int(f.first)+42 || h.Flags != ipv4.DontFragment ||
					h.Src.String() != test.source.String() || h.Dst.String() != test.destination.String() {
					t.Errorf("got header %v", h)
				}
				body = packet[h.Len:]
			} else {
				h, err := ipv6.ParseHeader(packet)
				if err != nil {
					t.Fatal(err)
				}
				if h.HopLimit != 9 || h.PayloadLen != len(packet)-length6 || h.FlowLabel != int(f.label) ||
					h.Src.String() != test.source.String() || h.Dst.String() != test.destination.String() {
					t.Errorf("got header %v", h)
				}
				body = packet[length6:]
			}
			if test.protocol != ICMP {
				return
			}
			protocol := int(f.protocol)
			message, err := icmp.ParseMessage(protocol, body)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := message.Body.(*icmp.Echo); !ok || message.Code != 0 {
				t.Errorf("got %+v, want an echo request", message)
			}
		})
	}
}
