package codec_test

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"testing"
	"time"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// The keys and tags below were computed by OpenSSL's SipHash over messages built by hand
// from the layout in wire.h, with countingKey as the key of the pair.
var flowKeys = []struct {
	name         string
	src, dst     string
	sport, dport uint16
	protocol     uint8
	want         string
}{
	{"IPv4 UDP", "192.0.2.1", "198.51.100.2", 40000, 8080, 17, "979fade1fc92f61a96810a98f0728e72"},
	{"IPv6 TCP", "2001:db8::1", "2001:db8::2", 40000, 80, 6, "902750dd118eb9b8d57f07b1e7b779ff"},
	{"IPv4 ICMP", "192.0.2.1", "198.51.100.2", 0, 0, 1, "6be80fde9dc226ad0ae231e8b3d81de1"},
}

func TestFlowKey(t *testing.T) {
	for _, test := range flowKeys {
		t.Run(test.name, func(t *testing.T) {
			got := codec.FlowKey(countingKey, netip.MustParseAddr(test.src), netip.MustParseAddr(test.dst),
				test.sport, test.dport, test.protocol)
			if hex.EncodeToString(got[:]) != test.want {
				t.Errorf("got %x, want %s", got, test.want)
			}
		})
	}
}

func TestComputeTag(t *testing.T) {
	both := wire.Delay | wire.Loss
	stamped := codec.Mark{Modules: both, Sent: 0xeea94a97_12345678, Received: 0xeea94a97_23456789, Sequence: 0x5b3c0102, Single: true}
	sparse := stamped
	sparse.Sparse = true
	ticks := codec.Mark{Modules: both, Ticks: 0x9a8b7c6d, Sequence: 0x5b3c0102, Single: true}
	sparseTicks, first, last := ticks, ticks, ticks
	sparseTicks.Sparse, first.Ticks, last.Ticks = true, 1, 0xffffffff
	const wrap = 1795083299_350118400 // a multiple of 2^36 ns
	for _, test := range []struct {
		name string
		mark codec.Mark
		near time.Time
		want uint32
	}{
		{"loss", markOf(wire.Shim, wire.Loss), vectorTime, 0x6ad562dc},
		{"loss, burst", codec.Mark{Modules: wire.Loss, Sequence: 0x5b3c0102}, vectorTime, 0x107d9ba3},
		{"loss, next epoch", markOf(wire.Shim, wire.Loss), vectorTime.Add(1 << 35), 0x9e0da391},
		{"timestamp", stamped, vectorTime, 0x82f23804},
		{"timestamp, seen a day later", stamped, vectorTime.Add(24 * time.Hour), 0x82f23804},
		{"timestamp, sparse", sparse, vectorTime, 0xfbe49b36},
		{"ticks", ticks, vectorTime, 0x455aa8ca},
		{"ticks, seen a second later", ticks, vectorTime.Add(time.Second), 0x455aa8ca},
		{"ticks, sparse", sparseTicks, vectorTime, 0x7f2d0fd1},
		{"first tick, seen from before", first, time.Unix(0, wrap-1000), 0xd60a0701},
		{"first tick, seen from after", first, time.Unix(0, wrap+1000), 0xd60a0701},
		{"last tick, seen from before", last, time.Unix(0, wrap-1000), 0xb8e0fecd},
		{"last tick, seen from after", last, time.Unix(0, wrap+1000), 0xb8e0fecd},
	} {
		t.Run(test.name, func(t *testing.T) {
			flow := codec.FlowKey(countingKey, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.2"), 40000, 8080, 17)
			if got := test.mark.ComputeTag(wire.Shim, flow, test.near); got != test.want {
				t.Errorf("got %#08x, want %#08x", got, test.want)
			}
		})
	}
}

// TestComputeTagCovers changes one thing after the other that a tag covers: no two tags agree.
func TestComputeTagCovers(t *testing.T) {
	src, dst := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.2")
	mark := codec.Mark{Modules: wire.Delay | wire.Loss, Ticks: 0x9a8b7c6d, Sequence: 5}
	tags := map[uint32]string{}
	check := func(name string, flow codec.Key, m codec.Mark, near time.Time) {
		tag := m.ComputeTag(wire.Shim, flow, near)
		if other, ok := tags[tag]; ok {
			t.Errorf("%s has the tag of %s", name, other)
		}
		tags[tag] = name
	}
	flow := codec.FlowKey(countingKey, src, dst, 1, 2, 17)
	check("mark", flow, mark, vectorTime)
	check("other pair", codec.FlowKey(codec.Key{}, src, dst, 1, 2, 17), mark, vectorTime)
	check("reverse", codec.FlowKey(countingKey, dst, src, 2, 1, 17), mark, vectorTime)
	check("other source", codec.FlowKey(countingKey, src.Next(), dst, 1, 2, 17), mark, vectorTime)
	check("other destination", codec.FlowKey(countingKey, src, dst.Next(), 1, 2, 17), mark, vectorTime)
	check("other source port", codec.FlowKey(countingKey, src, dst, 3, 2, 17), mark, vectorTime)
	check("other destination port", codec.FlowKey(countingKey, src, dst, 1, 3, 17), mark, vectorTime)
	check("other protocol", codec.FlowKey(countingKey, src, dst, 1, 2, 6), mark, vectorTime)
	check("replayed a wrap of the time later", flow, mark, vectorTime.Add(1<<36))
	other := mark
	other.Ticks++
	check("other time", flow, other, vectorTime)
	other = mark
	other.Sequence++
	check("other number", flow, other, vectorTime)
	other = mark
	other.Single = true
	check("single", flow, other, vectorTime)
	other = mark
	other.Sparse = true
	check("sparse", flow, other, vectorTime)
	other = codec.Mark{Modules: wire.Loss, Sequence: 5}
	check("without time", flow, other, vectorTime)
	check("without time, an epoch later", flow, other, vectorTime.Add(1<<35))
}

// TestTag reads five-tuples from packets, with the keys above or ones of FlowKey.
func TestTag(t *testing.T) {
	h4, h6 := header{}, header{v6: true}
	hop := header{v6: true, extra: []byte{0, 0, 5, 2, 0, 0, 1, 0}}
	options := header{extra: []byte{0x94, 4, 0, 0, 1, 1, 1, 0}}
	for _, test := range []struct {
		name         string
		packet       []byte
		sport, dport uint16
		protocol     uint8
	}{
		{"IPv4 UDP", h4.with(17, udp(nil)), 40000, 8080, 17},
		{"IPv4 TCP with IP options", options.with(6, tcp(nil)), 40000, 80, 6},
		{"IPv4 ICMP", h4.with(1, echo(8, nil)), 0, 0, 1},
		{"IPv4 UDP-Lite", h4.with(136, udp(nil).bytes), 40000, 8080, 136},
		{"IPv4 unknown", h4.with(200, udp(nil).bytes), 0, 0, 200},
		{"IPv4 UDP without ports", h4.with(17, []byte{1, 2, 3}), 0, 0, 17},
		{"IPv6 TCP", h6.with(6, tcp(nil)), 40000, 80, 6},
		{"IPv6 SCTP", h6.with(132, udp(nil).bytes), 40000, 8080, 132},
		{"IPv6 DCCP behind hop-by-hop", hop.with(33, udp(nil).bytes), 40000, 8080, 33},
		{"IPv6 ICMPv6", h6.with(58, echo(128, nil)), 0, 0, 58},
	} {
		t.Run(test.name, func(t *testing.T) {
			src, dst := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.2")
			if test.packet[0]>>4 == 6 {
				src, dst = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
			}
			want := markOf(wire.Shim, wire.Loss)
			want.Tagged = true
			want.Tag = want.ComputeTag(wire.Shim, codec.FlowKey(countingKey, src, dst, test.sport, test.dport, test.protocol), vectorTime)
			got, err := codec.Tag(test.packet, wire.Shim, markOf(wire.Shim, wire.Loss), countingKey, vectorTime)
			if err != nil || got != want {
				t.Errorf("got %+v %v, want %+v", got, err, want)
			}
		})
	}
}

func TestTagRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		packet []byte
		want   error
	}{
		{"nothing", nil, codec.ErrShort},
		{"version 5", []byte{0x50}, codec.ErrVersion},
		{"IPv4 header cut", header{}.with(17, nil)[:19], codec.ErrShort},
		{"IPv6 header cut", header{v6: true}.with(17, nil)[:39], codec.ErrShort},
		{"IPv6 packet cut", header{v6: true}.with(17, udp(nil))[:47], codec.ErrLength},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := codec.Tag(test.packet, wire.Shim, markOf(wire.Shim, wire.Loss), countingKey, vectorTime); got != (codec.Mark{}) || !errors.Is(err, test.want) {
				t.Errorf("got %+v %v, want %v", got, err, test.want)
			}
		})
	}
}
