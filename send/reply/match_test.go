package reply

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

var (
	here, there = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.2")
	router      = netip.MustParseAddr("203.0.113.9")
)

func header(protocol string) *frame.Header {
	return &frame.Header{Source: here, Destination: there, SourcePort: 50000, DestinationPort: 9, Protocol: protocol, Identifier: 7}
}

// icmp is an ICMPv4 error of the router that quotes the beginning of a packet's IP header on.
func icmp(t testing.TB, kind uint8, quoted []byte) []byte {
	t.Helper()
	b := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		&layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), EthernetType: layers.EthernetTypeIPv4},
		&layers.IPv4{Version: 4, TTL: 60, Protocol: layers.IPProtocolICMPv4, SrcIP: router.AsSlice(), DstIP: here.AsSlice()},
		&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(kind, 0)}, gopacket.Payload(quoted))
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// prepared is a listener without a socket, and the last of its packets.
func prepared(t testing.TB, h *frame.Header, packets int) (*Listener, []byte) {
	t.Helper()
	l := &Listener{headers: map[string]*frame.Header{"": h}, replies: map[name]Reply{}}
	var last frame.Header
	for i := range packets {
		last = *h
		l.Prepare(&last, &schedule.Entry{Number: uint32(i)})
	}
	template, err := last.Build(100, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l, template.Bytes
}

// TestQuotedEightBytes: errors of routers name a packet although they quote only its IP
// header and 8 bytes, also once indexes have wrapped.
func TestQuotedEightBytes(t *testing.T) {
	const ethernet, quote = 14, 28
	for _, protocol := range []string{frame.UDP, frame.TCP, frame.ICMP} {
		for _, packets := range []int{1, 70_000} {
			l, sent := prepared(t, header(protocol), packets)
			l.take(icmp(t, layers.ICMPv4TypeTimeExceeded, sent[ethernet:ethernet+quote]), 1)
			got, ok := l.Of(0, uint32(packets-1))
			if !ok || got.Kind != TimeExceeded || got.From != router {
				t.Errorf("%s, packet %d: %+v, %v of %v", protocol, packets, got, ok, l.replies)
			}
		}
	}
}

// TestOthersErrors: errors about packets of others, and cut ones, match nothing.
func TestOthersErrors(t *testing.T) {
	l, sent := prepared(t, header(frame.UDP), 3)
	quoted := sent[14:42]
	change := func(at int) []byte {
		b := append([]byte(nil), quoted...)
		b[at] ^= 0x40
		return b
	}
	for name, b := range map[string][]byte{
		"destination": change(16), "protocol": change(9), "source port": change(20), "destination port": change(22),
		"identification": change(4), "short": quoted[:20], "empty": nil,
	} {
		if l.take(icmp(t, layers.ICMPv4TypeDestinationUnreachable, b), 1); len(l.replies) > 0 {
			t.Fatalf("%s: %+v", name, l.replies)
		}
	}
}

func FuzzMatch(f *testing.F) {
	for _, protocol := range []string{frame.UDP, frame.TCP, frame.ICMP} {
		_, sent := prepared(f, header(protocol), 1)
		f.Add(icmp(f, layers.ICMPv4TypeTimeExceeded, sent[14:]))
	}
	b, _ := hex.DecodeString("0000000000000000000000000800")
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, protocol := range []string{frame.UDP, frame.TCP, frame.ICMP, frame.Raw} {
			h := header(protocol)
			match(h, b)
			h.Source, h.Destination = netip.MustParseAddr("::1"), netip.MustParseAddr("::2")
			match(h, b)
		}
	})
}
