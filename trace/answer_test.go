package trace

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
)

var (
	router4, router6 = netip.MustParseAddr("10.0.0.254"), netip.MustParseAddr("fd00::fe")
	elsewhere4       = netip.MustParseAddr("192.0.2.77")
)

// icmpError is an ICMP error that quotes a packet.
func icmpError(kind, code byte, quote []byte) []byte {
	return append([]byte{kind, code, 0, 0, 0, 0, 0, 0}, quote...)
}

// marked inserts bytes behind the IP header, with another protocol number, as the in-line
// source does.
func marked(packet []byte, header int, protocol byte, mark ...byte) []byte {
	packet = bytes.Clone(packet)
	if header == length4 {
		packet[9] = protocol
	} else {
		packet[6] = protocol
	}
	return append(packet[:header:header], append(mark, packet[header:]...)...)
}

func TestRead(t *testing.T) {
	udp4, icmp4 := newFlow(near4, distant4, UDP, 0), newFlow(near4, distant4, ICMP, 0)
	udp6, icmp6 := newFlow(near6, distant6, UDP, 0), newFlow(near6, distant6, ICMP, 0)
	otherFlow := newFlow(near4, elsewhere4, UDP, 0)
	sibling := newFlow(near4, distant4, UDP, 0) // the same flow in another trace
	p4, p6, e4, e6 := udp4.packet(3, 5), udp6.packet(3, 5), icmp4.packet(3, 5), icmp6.packet(3, 5)
	reply := func(request []byte, kind byte) []byte {
		message := bytes.Clone(request)
		message[0] = kind
		return message
	}
	extended := append(append(icmpError(11, 0, p4), make([]byte, 128-len(p4))...), 0x20, 0, 0, 0, 0, 8, 1, 1, 0, 0, 0, 1)
	other := reply(e4[length4:], 0)
	binary.BigEndian.PutUint16(other[4:], 1)
	tests := map[string]struct {
		flow    *flow
		from    netip.Addr
		message []byte
		want    kind // 0: not an answer
	}{
		"time exceeded":                 {udp4, router4, icmpError(11, 0, p4), passedOn},
		"time exceeded, ICMP":           {icmp4, router4, icmpError(11, 0, e4), passedOn},
		"time exceeded, IPv6":           {udp6, router6, icmpError(3, 0, p6), passedOn},
		"time exceeded, IPv6 ICMP":      {icmp6, router6, icmpError(3, 0, e6), passedOn},
		"quote as short as RFC 792":     {udp4, router4, icmpError(11, 0, p4[:28]), passedOn},
		"extensions of RFC 4884":        {udp4, router4, extended, passedOn},
		"marked by shim":                {udp4, router4, icmpError(11, 0, marked(p4, length4, 253, 3, 17, 20, 0, 1, 2, 3, 4)), passedOn},
		"marked in UDP":                 {udp4, router4, icmpError(11, 0, marked(p4, length4, 17, 0xc4, 0x4d, 0xc4, 0x4d, 0, 40, 0, 0, 2, 17, 4, 0, 1, 2, 3, 4)), passedOn},
		"marked by IPv6 option":         {udp6, router6, icmpError(3, 0, marked(p6, length6, 60, 17, 0, 0x1e, 4, 1, 2, 3, 4)), passedOn},
		"port unreachable":              {udp4, distant4, icmpError(3, 3, p4), reachedEnd},
		"port unreachable, IPv6":        {udp6, distant6, icmpError(1, 4, p6), reachedEnd},
		"port unreachable by an alias":  {udp4, elsewhere4, icmpError(3, 3, p4), reachedEnd},
		"forbidden by the destination":  {udp4, distant4, icmpError(3, 13, p4), reachedEnd},
		"host unreachable":              {udp4, router4, icmpError(3, 1, p4), refusedOn},
		"forbidden":                     {udp4, router4, icmpError(3, 13, p4), refusedOn},
		"no route, IPv6":                {udp6, router6, icmpError(1, 0, p6), refusedOn},
		"echo reply":                    {icmp4, distant4, reply(e4[length4:], 0), reachedEnd},
		"echo reply, IPv6":              {icmp6, distant6, reply(e6[length6:], 129), reachedEnd},
		"echo reply, another sequence":  {icmp4, distant4, other, 0},
		"echo reply to UDP":             {udp4, distant4, reply(e4[length4:], 0), 0},
		"of another flow":               {udp4, router4, icmpError(11, 0, otherFlow.packet(3, 5)), 0},
		"of another trace":              {udp4, router4, icmpError(11, 0, sibling.packet(3, 5)), 0},
		"another protocol, short quote": {icmp4, router4, icmpError(11, 0, p4[:28]), 0},
		"source quench":                 {udp4, router4, icmpError(4, 0, p4), 0},
		"no transport header":           {udp4, router4, icmpError(11, 0, p4[:27]), 0},
		"no number after the token":     {udp6, router6, icmpError(3, 0, p6[:length6+16]), 0},
		"IPv6 in IPv4":                  {udp4, router4, icmpError(11, 0, p6), 0},
		"IPv4 in IPv6":                  {udp6, router6, icmpError(3, 0, p4), 0},
		"nothing":                       {udp4, router4, nil, 0},
		"header only":                   {udp4, router4, icmpError(11, 0, nil), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a, ok := test.flow.read(test.from, test.message)
			if ok != (test.want != 0) {
				t.Fatalf("got %+v, %v", a, ok)
			}
			if ok && (a.kind != test.want || a.number != 5 || a.from != test.from) {
				t.Errorf("got %+v, want probe 5, kind %d", a, test.want)
			}
		})
	}
}

// A forged message must not take the parser or the walk out of bounds.
func FuzzRead(f *testing.F) {
	for _, test := range flows {
		flow := fixed(test.source, test.destination, test.protocol)
		packet := flow.packet(3, 5)
		f.Add([]byte{0x45}, packet)
		f.Add(flow.header4or6(3, 5), icmpError(11, 0, packet))
		f.Add(flow.header4or6(3, 5), icmpError(3, 3, packet))
		f.Add([]byte{}, icmpError(0, 0, packet))
	}
	f.Fuzz(func(t *testing.T, header, message []byte) {
		for _, test := range flows {
			flow := fixed(test.source, test.destination, test.protocol)
			w := newWalk(Options{Destination: test.destination})
			w.sent(0, start)
			body := message
			from := test.destination
			if test.source.Is4() {
				var ok bool
				if from, body, ok = strip(append(header, message...)); !ok {
					from, body = router4, message
				}
			}
			if a, ok := flow.read(from, body); ok {
				if a.number < 0 || a.number > 0xffff || a.kind == 0 {
					t.Errorf("got %+v", a)
				}
				a.read = start
				w.take(a)
				w.hops()
			}
		}
	})
}

// fixed is a flow whose token is the same in every run, so that a fuzzer can find it.
func fixed(source, destination netip.Addr, protocol string) *flow {
	flow := newFlow(source, destination, protocol, 0)
	flow.token, flow.first = [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, 100
	return flow
}

func (f *flow) header4or6(ttl, number int) []byte {
	if f.source.Is4() {
		return f.header4(ttl, number)
	}
	return f.header6(ttl)
}
