package codec_test

import (
	"bytes"
	"errors"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

func TestParseOptionsRefuses(t *testing.T) {
	for _, test := range []struct {
		name, header string
		want         error
	}{
		{"nothing", "", codec.ErrShort},
		{"seven bytes", "11 00 1e 04 000000", codec.ErrShort},
		{"delay cut", "11 02 3e 10 0000000000000000 0000000000000000 01 02 00", codec.ErrShort},
		{"both cut to delay", "11 03 3e 10 0000000000000000 0000000000000000 1e 04 0000", codec.ErrShort},
		{"padding only", "11 00 01 04 00000000", codec.ErrNotMark},
		{"padding before loss", "11 01 01 04 00000000 1e 04 00000000 0000", codec.ErrNotMark},
		{"other experimental option", "11 00 5e 04 00000000", codec.ErrNotMark},
		{"tunnel encapsulation limit", "29 00 04 01 04 01 01 00", codec.ErrNotMark},
		{"loss of three bytes", "11 00 1e 03 000000 00", codec.ErrMalformed},
		{"loss of five bytes", "11 00 1e 05 00000000", codec.ErrMalformed},
		{"loss in sixteen bytes", "11 01 1e 04 00000000 01 06 000000000000", codec.ErrMalformed},
		{"delay in eight bytes", "11 00 3e 10 00000000", codec.ErrMalformed},
		{"delay of 15 bytes", "11 02 3e 0f 0000000000000000 0000000000000000 01 02 0000", codec.ErrMalformed},
		{"delay with Pad1 for PadN", "11 02 3e 10 0000000000000000 0000000000000000 00 00 0000", codec.ErrMalformed},
		{"delay with content in padding", "11 02 3e 10 0000000000000000 0000000000000000 01 02 0001", codec.ErrMalformed},
		{"loss before delay", "11 03 1e 04 00000000 3e 10 0000000000000000 0000000000000000 01 04 00000000", codec.ErrMalformed},
		{"delay twice", "11 04 3e 10 0000000000000000 0000000000000000 3e 10 0000000000000000 0000000000000000 01 02 0000", codec.ErrMalformed},
		{"both, loss of other type", "11 03 3e 10 0000000000000000 0000000000000000 1f 04 00000000 01 04 00000000", codec.ErrMalformed},
		{"both, short padding", "11 03 3e 10 0000000000000000 0000000000000000 1e 04 00000000 01 03 00000000", codec.ErrMalformed},
		{"tagged loss cut", "11 01 1e 08 00000000 00000000 01 02 00", codec.ErrShort},
		{"tagged loss in eight bytes", "11 00 1e 08 00000000", codec.ErrMalformed},
		{"tagged loss, loss of seven bytes", "11 01 1e 07 00000000 000000 01 03 000000", codec.ErrMalformed},
		{"tagged loss, sparse", "11 01 1e 09 00000000 04 00000000 01 01 00", codec.ErrMalformed},
		{"tagged loss with content in padding", "11 01 1e 08 00000000 00000000 01 02 0100", codec.ErrMalformed},
		{"tagged loss, Pad1 for PadN", "11 01 1e 08 00000000 00000000 00 00 0000", codec.ErrMalformed},
		{"tagged delay", "11 03 3e 10 0000000000000000 0000000000000000 3e 08 00000000 00000000 01 00", codec.ErrMalformed},
		{"tagged both, Pad1 for PadN", "11 03 3e 10 0000000000000000 0000000000000000 1e 08 00000000 00000000 00 00", codec.ErrMalformed},
		{"tagged both with the padding of a tagged loss", "11 03 3e 10 0000000000000000 0000000000000000 1e 08 00000000 01 02 0000 0000", codec.ErrMalformed},
		{"tagged sparse, other flags", "11 03 3e 10 0000000000000000 0000000000000000 1e 09 00000000 0c 00000000 00", codec.ErrMalformed},
		{"tagged sparse with content in padding", "11 03 3e 10 0000000000000000 0000000000000000 1e 09 00000000 04 00000000 01", codec.ErrMalformed},
		{"sparse tagged by length only", "11 03 3e 10 0000000000000000 0000000000000000 1e 05 00000000 04 00000000 00", codec.ErrMalformed},
		{"claims 2048 bytes", "11 ff 3e 10 00000000", codec.ErrMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, next, n, err := codec.ParseOptions(unhex(t, test.header))
			if !errors.Is(err, test.want) || m != (codec.Mark{}) || next != 0 || n != 0 {
				t.Errorf("got %+v %d %d %v, want %v", m, next, n, err, test.want)
			}
		})
	}
}

func TestParseShimRefuses(t *testing.T) {
	for _, test := range []struct {
		name, shim string
		want       error
	}{
		{"nothing", "", codec.ErrShort},
		{"three bytes", "02 11 04", codec.ErrShort},
		{"head only", "02 11 04 00", codec.ErrShort},
		{"both cut to delay", "03 11 14 00 0000000000000000 0000000000000000", codec.ErrShort},
		{"type 0", "00 11 00 00", codec.ErrNotMark},
		{"type 4", "04 11 04 00 00000000", codec.ErrNotMark},
		{"type 255", "ff 11 04 00 00000000", codec.ErrNotMark},
		{"loss of 16 bytes", "02 11 10 00 0000000000000000 0000000000000000", codec.ErrMalformed},
		{"delay of 20 bytes", "01 11 14 00 0000000000000000 0000000000000000 00000000", codec.ErrMalformed},
		{"both of 16 bytes", "03 11 10 00 0000000000000000 0000000000000000", codec.ErrMalformed},
		{"type 6, sparse loss", "06 11 04 00 00000000", codec.ErrNotMark},
		{"type 8, tag alone", "08 11 04 00 00000000", codec.ErrNotMark},
		{"type 9, tagged delay", "09 11 14 00 0000000000000000 0000000000000000 00000000", codec.ErrNotMark},
		{"type 14, tagged sparse loss", "0e 11 08 00 00000000 00000000", codec.ErrNotMark},
		{"type 16, modules alone", "10 11 04 00 3e024040", codec.ErrNotMark},
		{"type 40", "28 11 08 00 00000000 00000000", codec.ErrNotMark},
		{"modules without options", "12 11 04 00 00000000", codec.ErrMalformed},
		{"options of another type", "12 11 08 00 00000000 1e024040", codec.ErrMalformed},
		{"option that ends behind the shim", "12 11 08 00 00000000 3e034040", codec.ErrMalformed},
		{"option without id", "12 11 06 00 00000000 3e00", codec.ErrMalformed},
		{"tag among the options", "12 11 0b 00 00000000 3e050111223344", codec.ErrMalformed},
		{"36 bytes of options", "12 11 28 00 00000000 3e10400102030405060708090a0b0c0d0e0f 3e104001020304050607080f0e0d0c0b0a09", codec.ErrMalformed},
		{"options cut", "12 11 08 00 00000000 3e0240", codec.ErrShort},
		{"tagged loss without tag", "0a 11 04 00 00000000", codec.ErrMalformed},
		{"loss with tag, type without", "02 11 08 00 00000000 00000000", codec.ErrMalformed},
		{"tagged both without tag", "0b 11 14 00 0000000000000000 0000000000000000 00000000", codec.ErrMalformed},
		{"tagged loss cut", "0a 11 08 00 00000000 000000", codec.ErrShort},
		{"loss of none", "02 11 00 00 00000000", codec.ErrMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, next, n, err := codec.ParseShim(unhex(t, test.shim))
			if !errors.Is(err, test.want) || m != (codec.Mark{}) || next != 0 || n != 0 {
				t.Errorf("got %+v %d %d %v, want %v", m, next, n, err, test.want)
			}
		})
	}
}

func TestParseShimIgnoresFlags(t *testing.T) {
	m, next, n, err := codec.ParseShim(unhex(t, "02 11 04 ff 80000007 aa"))
	want := codec.Mark{Modules: wire.Loss, Sequence: 7, Single: true}
	if m != want || next != 17 || n != 8 || err != nil {
		t.Errorf("got %+v %d %d %v", m, next, n, err)
	}
}

// edit returns a copy of packet with bytes at an offset overwritten, and its
// IPv4 header checksum corrected unless the edit is in it.
func edit(packet []byte, at int, with ...byte) []byte {
	packet = bytes.Clone(packet)
	copy(packet[at:], with)
	if packet[0]>>4 == 4 && at != 10 {
		size := min(4*int(packet[0]&15), len(packet))
		packet[10], packet[11] = 0, 0
		sum := checksum(packet[:size])
		packet[10], packet[11] = byte(sum>>8), byte(sum)
	}
	return packet
}

// marked returns a UDP packet marked with delay and loss.
func marked(t *testing.T, e wire.Encoding) []byte {
	t.Helper()
	packet := header{v6: e == wire.Native}.with(17, udp([]byte("marked")))
	if e == wire.TCPOption {
		packet = header{}.with(6, tcp([]byte("marked")))
	}
	b, err := codec.Insert(packet, e, markOf(e, wire.Delay|wire.Loss), wire.Port)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestInsertRefuses(t *testing.T) {
	v4, v6 := header{}.with(17, udp(nil)), header{v6: true}.with(17, udp(nil))
	hop := header{v6: true, extra: []byte{0, 0, 5, 2, 0, 0, 1, 0}}
	long4, long6 := header{}.with(200, make([]byte, 65535-20-23)), header{v6: true}.with(200, make([]byte, 65535-31))
	both := wire.Delay | wire.Loss
	for _, test := range []struct {
		name     string
		packet   []byte
		encoding wire.Encoding
		modules  wire.Module
		port     uint16
		want     error
	}{
		{"nothing", nil, wire.Native, both, 1, codec.ErrShort},
		{"version 5", []byte{0x50}, wire.Native, both, 1, codec.ErrVersion},
		{"no module", v6, wire.Native, 0, 1, codec.ErrModules},
		{"unknown module", v6, wire.Native, 4 | wire.Loss, 1, codec.ErrModules},
		{"udp port 0", v4, wire.UDP, both, 0, codec.ErrPort},
		{"native in IPv4", v4, wire.Native, both, 1, codec.ErrEncoding},
		{"shim in IPv6", v6, wire.Shim, both, 1, codec.ErrEncoding},
		{"udp in IPv6", v6, wire.UDP, both, 1, codec.ErrEncoding},
		{"udp-option over TCP", header{}.with(6, tcp(nil)), wire.UDPOption, both, 1, codec.ErrEncoding},
		{"udp-option behind hop-by-hop", hop.with(17, udp(nil)), wire.UDPOption, both, 1, codec.ErrEncoding},
		{"udp-option with options", header{extra: make([]byte, 4)}.with(17, udp(nil)), wire.UDPOption, both, 1, codec.ErrHeaderOptions},
		{"udp-option in a fragment", edit(v4, 6, 0x20), wire.UDPOption, both, 1, codec.ErrFragment},
		{"udp-option, surplus", edit(header{}.with(17, udp(make([]byte, 4))), 25, 10), wire.UDPOption, both, 1, codec.ErrSurplus},
		{"udp-option, UDP length 7", edit(v4, 25, 7), wire.UDPOption, both, 1, codec.ErrSurplus},
		{"udp-option, UDP header cut", header{v6: true}.with(17, make([]byte, 7)), wire.UDPOption, both, 1, codec.ErrShort},
		{"udp-option without number", v4, wire.UDPOption, wire.Loss, 1, codec.ErrEncoding},
		{"udp-option without time", v6, wire.UDPOption, wire.Delay, 1, codec.ErrEncoding},
		{"marked udp-option", marked(t, wire.UDPOption), wire.UDPOption, both, 1, codec.ErrMarked},
		{"tcp-option over UDP", v4, wire.TCPOption, both, 1, codec.ErrEncoding},
		{"tcp-option behind hop-by-hop", hop.with(6, tcp(nil)), wire.TCPOption, both, 1, codec.ErrEncoding},
		{"tcp-option with IP options", header{extra: make([]byte, 4)}.with(6, tcp(nil)), wire.TCPOption, both, 1, codec.ErrHeaderOptions},
		{"tcp-option in a fragment", edit(header{}.with(6, tcp(nil)), 6, 0x20), wire.TCPOption, both, 1, codec.ErrFragment},
		{"tcp-option without room", edit(header{}.with(6, tcp(make([]byte, 40))), 32, 13<<4), wire.TCPOption, both, 1, codec.ErrOptionRoom},
		{"tcp-option behind an end of options", edit(header{}.with(6, tcp(make([]byte, 4))), 32, 6<<4), wire.TCPOption, both, 1, codec.ErrOptionRoom},
		{"tcp-option, TCP header cut", header{v6: true}.with(6, make([]byte, 19)), wire.TCPOption, both, 1, codec.ErrShort},
		{"tcp-option, options cut", edit(header{}.with(6, tcp(nil)), 32, 6<<4), wire.TCPOption, both, 1, codec.ErrLength},
		{"tcp-option, short data offset", edit(header{}.with(6, tcp(nil)), 32, 4<<4), wire.TCPOption, both, 1, codec.ErrLength},
		{"tcp-option, impossible checksum", edit(header{}.with(6, tcp(nil)), 36, 0xff, 0xff), wire.TCPOption, both, 1, codec.ErrChecksum},
		{"tcp-option without number", header{}.with(6, tcp(nil)), wire.TCPOption, wire.Loss, 1, codec.ErrEncoding},
		{"marked tcp-option", marked(t, wire.TCPOption), wire.TCPOption, both, 1, codec.ErrMarked},
		{"unknown encoding", v4, 9, both, 1, codec.ErrEncoding},
		{"destination options", header{v6: true}.with(60, []byte{59, 0, 1, 4, 0, 0, 0, 0}), wire.Native, both, 1, codec.ErrDestinationOptions},
		{"marked native", marked(t, wire.Native), wire.Native, both, 1, codec.ErrDestinationOptions},
		{"routing", header{v6: true}.with(43, make([]byte, 8)), wire.Native, both, 1, codec.ErrRouting},
		{"IPv6 fragment", header{v6: true}.with(44, make([]byte, 8)), wire.Native, both, 1, codec.ErrFragment},
		{"authentication", header{v6: true}.with(51, make([]byte, 12)), wire.Native, both, 1, codec.ErrAuthentication},
		{"routing after hop-by-hop", hop.with(43, make([]byte, 8)), wire.Native, both, 1, codec.ErrRouting},
		{"hop-by-hop twice", hop.with(0, []byte{17, 0, 5, 2, 0, 0, 1, 0}), wire.Native, both, 1, codec.ErrMalformed}, // found by FuzzRoundTrip
		{"IPv6 header cut", v6[:39], wire.Native, both, 1, codec.ErrShort},
		{"IPv6 packet cut", v6[:47], wire.Native, both, 1, codec.ErrLength},
		{"IPv6 trailer", append(bytes.Clone(v6), 0), wire.Native, both, 1, codec.ErrLength},
		{"hop-by-hop missing", header{v6: true}.with(0, nil), wire.Native, both, 1, codec.ErrShort},
		{"hop-by-hop cut", header{v6: true}.with(0, []byte{17, 1, 1, 4, 0, 0, 0, 0}), wire.Native, both, 1, codec.ErrShort},
		{"IPv6 too long", long6, wire.Native, both, 1, codec.ErrTooLong},
		{"IPv4 too long", long4, wire.Shim, both, 1, codec.ErrTooLong},
		{"IPv4 header cut", v4[:19], wire.Shim, both, 1, codec.ErrShort},
		{"IPv4 packet cut", v4[:27], wire.Shim, both, 1, codec.ErrLength},
		{"IPv4 trailer", append(bytes.Clone(v4), 0), wire.Shim, both, 1, codec.ErrLength},
		{"IPv4 header length 4", edit(v4, 0, 0x41), wire.Shim, both, 1, codec.ErrLength},
		{"IPv4 header length 60 of 28", edit(v4, 0, 0x4f), wire.Shim, both, 1, codec.ErrLength},
		{"IPv4 checksum", edit(v4, 10, 0, 0), wire.Shim, both, 1, codec.ErrChecksum},
		{"first fragment", edit(v4, 6, 0x20), wire.Shim, both, 1, codec.ErrFragment},
		{"last fragment, udp", edit(v4, 7, 0x01), wire.UDP, both, 1, codec.ErrFragment},
		{"shim with options", header{extra: make([]byte, 4)}.with(6, tcp(nil)), wire.Shim, both, 1, codec.ErrHeaderOptions},
		{"ipip with options", header{extra: make([]byte, 4)}.with(6, tcp(nil)), wire.IPIP, both, 1, codec.ErrHeaderOptions},
		{"marked shim", marked(t, wire.Shim), wire.UDP, both, 1, codec.ErrMarked},
		{"marked ipip", marked(t, wire.IPIP), wire.Shim, both, 1, codec.ErrMarked},
		{"marked udp", marked(t, wire.UDP), wire.UDP, both, wire.Port, codec.ErrMarked},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := codec.Mark{Modules: test.modules}
			if got, err := codec.Insert(test.packet, test.encoding, m, test.port); got != nil || !errors.Is(err, test.want) {
				t.Errorf("got %x %v, want %v", got, err, test.want)
			}
		})
	}
}

func TestExtractRefuses(t *testing.T) {
	native, shim, ipip, udp4 := marked(t, wire.Native), marked(t, wire.Shim), marked(t, wire.IPIP), marked(t, wire.UDP)
	option := marked(t, wire.UDPOption) // the option's checksum is at 34
	segment := marked(t, wire.TCPOption)
	// An unknown option of 16 bytes with those of a mark at its end.
	inside := header{}.with(6, tcp(append([]byte{200, 16, 0, 0}, segment[40:52]...)))
	inside = edit(inside, 32, 9<<4)
	long := header{}.with(17, udp(append(bytes.Clone(option[28:]), 0, 0)))
	refuseExtract(t, []refusal{
		{"nothing", nil, codec.ErrShort},
		{"version 7", []byte{0x70}, codec.ErrVersion},
		{"IPv6 unmarked", header{v6: true}.with(17, udp(nil)), codec.ErrNotMark},
		{"IPv4 unmarked", header{}.with(6, tcp(nil)), codec.ErrNotMark},
		{"IPv4 udp to another port", header{}.with(17, udp(nil)), codec.ErrNotMark},
		{"native, option type", edit(native, 42, 0x3f), codec.ErrNotMark},
		{"native, option length", edit(native, 43, 15), codec.ErrMalformed},
		{"native, hop-by-hop after the mark", edit(native, 40, 0), codec.ErrMalformed}, // found by FuzzExtract
		{"native, payload length", edit(native, 5, 1), codec.ErrLength},
		{"shim, type", edit(shim, 20, 4), codec.ErrNotMark},
		{"shim, data length", edit(shim, 22, 4), codec.ErrMalformed},
		{"shim, fragment", edit(shim, 6, 0x20), codec.ErrNotMark},
		{"shim, options", edit(shim, 0, 0x46), codec.ErrNotMark},
		{"shim, checksum", edit(shim, 10, 1, 2), codec.ErrChecksum},
		{"shim, no room", header{}.with(253, []byte{2, 6, 4, 0, 0}), codec.ErrShort},
		{"ipip, other source", edit(ipip, 15, 9), codec.ErrNotMark},
		{"ipip, other destination", edit(ipip, 19, 9), codec.ErrNotMark},
		{"ipip, inner version", edit(ipip, 20, 0x65), codec.ErrNotMark},
		{"ipip, inner options", edit(ipip, 20, 0x46), codec.ErrNotMark},
		{"ipip, inner protocol", edit(ipip, 29, 17), codec.ErrNotMark},
		{"ipip, inner fragment", edit(ipip, 26, 0x20), codec.ErrNotMark},
		{"ipip, inner total length", edit(ipip, 23, 1), codec.ErrMalformed},
		{"ipip, inner checksum", edit(ipip, 30, 1, 2), codec.ErrMalformed},
		{"ipip, shim length", edit(ipip, 42, 1), codec.ErrMalformed},
		{"ipip, nothing inside", header{}.with(4, []byte{0x45}), codec.ErrNotMark},
		{"udp, other port", edit(udp4, 23, 0), codec.ErrNotMark},
		{"udp, checksum", edit(udp4, 26, 1), codec.ErrNotMark},
		{"udp, length", edit(udp4, 25, 8), codec.ErrMalformed},
		{"udp, shim type", edit(udp4, 28, 0), codec.ErrNotMark},
		{"udp, shim next", edit(udp4, 29, 17), codec.ErrMalformed},
		{"udp, other source", edit(udp4, 15, 9), codec.ErrNotMark},
		{"udp, inner version", edit(udp4, 52, 0x65), codec.ErrMalformed},
		{"udp, inner header length", edit(udp4, 52, 0x41), codec.ErrMalformed},
		{"udp, inner total length", edit(udp4, 55, 1), codec.ErrMalformed},
		{"udp, inner checksum", edit(udp4, 62, 1, 2), codec.ErrMalformed},
		{"udp-option, kind", edit(option, 36, 126), codec.ErrNotMark},
		{"udp-option, other experiment", edit(option, 39, 0), codec.ErrNotMark},
		{"udp-option, option length", edit(option, 37, 10), codec.ErrMalformed},
		{"udp-option, checksum", edit(option, 35, option[35]+1), codec.ErrMalformed},
		{"udp-option, number", edit(option, 40, 0), codec.ErrMalformed},
		{"udp-option, UDP length", edit(option, 25, 12), codec.ErrNotMark},
		{"udp-option, padding", edit(option, 25, 13), codec.ErrMalformed},
		{"udp-option, longer surplus", edit(long, 25, 14), codec.ErrNotMark},
		{"udp-option, fragment", edit(option, 6, 0x20), codec.ErrNotMark},
		{"tcp-option, kind", edit(segment, 40, 254), codec.ErrNotMark},
		{"tcp-option, other experiment", edit(segment, 43, 0), codec.ErrNotMark},
		{"tcp-option, option length", edit(segment, 41, 10), codec.ErrNotMark},
		{"tcp-option, neither number nor time", edit(segment, 44, make([]byte, 8)...), codec.ErrMalformed},
		{"tcp-option, data offset", edit(segment, 32, 7<<4), codec.ErrNotMark},
		{"tcp-option inside another", inside, codec.ErrNotMark},
		{"tcp-option behind the end", edit(inside, 40, 0), codec.ErrNotMark},
		{"tcp-option behind an option of one byte", edit(inside, 41, 1), codec.ErrNotMark},
		{"tcp-option, fragment", edit(segment, 6, 0x20), codec.ErrNotMark},
		{"udp, header cut", header{}.with(17, []byte{0xc0, 0, 0xc4, 0x4d, 0, 7, 0}), codec.ErrShort},
		{"udp, no inner header", header{}.with(17, []byte{0xc0, 0, 0xc4, 0x4d, 0, 16, 0, 0, 2, 4, 4, 0, 0, 0, 0, 0}), codec.ErrShort},
	})
}

// A refusal is a packet from which no mark can be extracted.
type refusal struct {
	name   string
	packet []byte
	want   error
}

func refuseExtract(t *testing.T, tests []refusal) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, m, e, err := codec.Extract(test.packet, wire.Port)
			if got != nil || m != (codec.Mark{}) || e != 0 || !errors.Is(err, test.want) {
				t.Errorf("got %x %+v %v %v, want %v", got, m, e, err, test.want)
			}
		})
	}
}

// TestExtractCut truncates every vector at every length: never a mark, never a panic.
func TestExtractCut(t *testing.T) {
	for _, v := range load(t) {
		for n := range v.Marked {
			if _, _, _, err := codec.Extract(v.Marked[:n], v.Port); err == nil {
				t.Fatalf("%s: %d bytes of %d are a mark", v.Name, n, len(v.Marked))
			}
		}
	}
}

// TestInsertDoesNotShareMemory checks that input and output share no memory.
func TestInsertDoesNotShareMemory(t *testing.T) {
	for _, v := range load(t) {
		in := bytes.Clone(v.Original)
		out, err := codec.Insert(in, v.Encoding, v.Mark, v.Port)
		if err != nil {
			t.Fatal(err)
		}
		clear(out)
		if !bytes.Equal(in, v.Original) {
			t.Fatalf("%s: Insert's result shares memory with its input", v.Name)
		}
		in = bytes.Clone(v.Marked)
		out, _, _, err = codec.Extract(in, v.Port)
		if err != nil {
			t.Fatal(err)
		}
		clear(out)
		if !bytes.Equal(in, v.Marked) {
			t.Fatalf("%s: Extract's result shares memory with its input", v.Name)
		}
	}
}
