package codec_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// unhex reads hexadecimal digits, with any white space between them.
func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// An IPv4 packet of protocol 200 with four bytes of payload. Its header's sum
// without checksum is 0x2b217, folded 0xb219, so its checksum is 0x4de6.
const handIPv4 = `4500 0018 0001 4000 40c8 4de6 c0000201 c6336402 deadbeef`

// handVectors were derived by hand from the layouts, independently of this package: they
// prevent the generated vectors from defining the truth.
var handVectors = []struct {
	name             string
	encoding         wire.Encoding
	mark             codec.Mark
	original, marked string
}{
	{
		name: "native delay,loss on udp", encoding: wire.Native,
		mark: codec.Mark{Modules: wire.Delay | wire.Loss, Sent: 0xeb6f8d80_40000000, Received: 0xeb6f8d81_80000001, Sequence: 0x00120007},
		original: `60000000 0008 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			03e8 07d0 0008 abcd`,
		marked: `60000000 0028 3c 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			11 03  3e 10 eb6f8d8040000000 eb6f8d8180000001  1e 04 00120007  01 04 00000000
			03e8 07d0 0008 abcd`,
	},
	{
		name: "native loss, single, after hop-by-hop", encoding: wire.Native,
		mark: codec.Mark{Modules: wire.Loss, Sequence: 0x7fffffff, Single: true},
		original: `60000000 0008 00 01 fe800000000000000000000000000001 ff020000000000000000000000000002
			3b 00 05 02 0000 01 00`,
		marked: `60000000 0010 00 01 fe800000000000000000000000000001 ff020000000000000000000000000002
			3c 00 05 02 0000 01 00
			3b 00 1e 04 ffffffff`,
	},
	{
		name: "native delay, no payload", encoding: wire.Native,
		mark:     codec.Mark{Modules: wire.Delay, Sent: 0xffffffff_ffffffff},
		original: `6a512345 0000 3b ff 20010db8000000000000000000000001 20010db8000000000000000000000002`,
		marked: `6a512345 0018 3c ff 20010db8000000000000000000000001 20010db8000000000000000000000002
			3b 02  3e 10 ffffffffffffffff 0000000000000000  01 02 0000`,
	},
	{
		// length +8, protocol c8 to fd (+35): sum b256
		name: "shim loss, single", encoding: wire.Shim,
		mark:     codec.Mark{Modules: wire.Loss, Sequence: 5, Single: true},
		original: handIPv4,
		marked:   `4500 0020 0001 4000 40fd 4da9 c0000201 c6336402  02 c8 04 00 80000005  deadbeef`,
	},
	{
		// length +0c, protocol c8 to fd (+35): sum b25a
		name: "shim loss, single, hop count", encoding: wire.Shim,
		mark:     codec.Mark{Modules: wire.Loss, Sequence: 5, Single: true, Options: codec.AppendModules(codec.ModuleOption{ID: 0x40, Data: []byte{64}})},
		original: handIPv4,
		marked:   `4500 0024 0001 4000 40fd 4da5 c0000201 c6336402  12 c8 08 00 80000005 3e0240 40  deadbeef`,
	},
	{
		name: "native loss, single, hop count", encoding: wire.Native,
		mark:     codec.Mark{Modules: wire.Loss, Sequence: 5, Single: true, Options: codec.AppendModules(codec.ModuleOption{ID: 0x40, Data: []byte{64}})},
		original: `6a512345 0000 3b ff 20010db8000000000000000000000001 20010db8000000000000000000000002`,
		marked: `6a512345 0010 3c ff 20010db8000000000000000000000001 20010db8000000000000000000000002
			3b 01  1e 04 80000005  3e 02 40 40  01 02 0000`,
	},
	{
		// inner: length +14, protocol +35: sum b262; outer: length +28, protocol c8 to 04 (-c4): sum b17d
		name: "ipip delay", encoding: wire.IPIP,
		mark:     codec.Mark{Modules: wire.Delay, Sent: 0x00000000_00000001, Received: 0x00000001_00000000},
		original: handIPv4,
		marked: `4500 0040 0001 4000 4004 4e82 c0000201 c6336402
			4500 002c 0001 4000 40fd 4d9d c0000201 c6336402
			01 c8 10 00 0000000000000001 0000000100000000  deadbeef`,
	},
	{
		// outer: length +34, protocol c8 to 11 (-b7): sum b196; the source port is any hash, here ffff
		name: "udp delay,loss", encoding: wire.UDP,
		mark:     codec.Mark{Modules: wire.Delay | wire.Loss, Sent: 0xeb6f8d80_40000000, Sequence: 0x00120007},
		original: handIPv4,
		marked: `4500 004c 0001 4000 4011 4e69 c0000201 c6336402  ffff c44d 0038 0000
			03 04 14 00 eb6f8d8040000000 0000000000000000 00120007
			4500 0018 0001 4000 40c8 4de6 c0000201 c6336402 deadbeef`,
	},
	{
		// IP header: total length +0e, sum b178; surplus: 0e 7f0c 504c 8000 0005 1234 5678, sum b818
		name: "udp-option delay,loss, single, even", encoding: wire.UDPOption,
		mark: codec.Mark{Modules: wire.Delay | wire.Loss, Sequence: 5, Single: true, Ticks: 0x12345678},
		original: `4500 0020 0001 4000 4011 4e95 c0000201 c6336402
			03e8 07d0 000c 0000 deadbeef`,
		marked: `4500 002e 0001 4000 4011 4e87 c0000201 c6336402
			03e8 07d0 000c 0000 deadbeef  47e7 7f 0c 504c 80000005 12345678`,
	},
	{
		// surplus with padding: 0f 7f0c 504c ffff ffff, sum cf67
		name: "udp-option delay, odd", encoding: wire.UDPOption,
		mark: codec.Mark{Modules: wire.Delay, Ticks: 0xffffffff},
		original: `60000000 0009 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			03e8 07d0 0009 abcd ff`,
		marked: `60000000 0018 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			03e8 07d0 0009 abcd ff 00  3098 7f 0c 504c 00000000 ffffffff`,
	},
	{
		// IP header: total length +0c, sum b177; TCP sum 05c7: option 3609, 2 carried, data offset
		// +3000, length +0c, sum 6bde
		name: "tcp-option delay,loss, single", encoding: wire.TCPOption,
		mark: codec.Mark{Modules: wire.Delay | wire.Loss, Sequence: 5, Single: true, Ticks: 0x12345678},
		original: `4500 002c 0001 4000 4006 4e94 c0000201 c6336402
			03e8 07d0 00000001 00000002 50 18 2000 fa38 0000 deadbeef`,
		marked: `4500 0038 0001 4000 4006 4e88 c0000201 c6336402
			03e8 07d0 00000001 00000002 80 18 2000 9421 0000 fd 0c 504c 80000005 12345678 deadbeef`,
	},
	{
		// checksum as a sum: edcb; option 4d56, 3 carried, data offset +3000, length +0c: 6b31
		name: "tcp-option delay, after timestamps", encoding: wire.TCPOption,
		mark: codec.Mark{Modules: wire.Delay, Ticks: 0xffffffff},
		original: `60000000 0020 06 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			03e8 07d0 00000001 00000002 80 10 2000 1234 0000 01 01 08 0a 11111111 22222222`,
		marked: `60000000 002c 06 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			03e8 07d0 00000001 00000002 b0 10 2000 94ce 0000 01 01 08 0a 11111111 22222222
			fd 0c 504c 00000000 ffffffff`,
	},
	{
		name: "ioam-e2e delay,loss", encoding: wire.IOAME2E,
		mark: codec.Mark{Modules: wire.Delay | wire.Loss, Sent: 0xeb6f8d80_40000000, Sequence: 0x00120007, Single: true},
		original: `60000000 0008 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			03e8 07d0 0008 abcd`,
		marked: `60000000 0020 3c 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			11 02 0100 11 12 00 03 0000 7000 80120007 eb6f8d8040000000
			03e8 07d0 0008 abcd`,
	},
	{
		name: "ioam-e2e tagged loss, after hop-by-hop", encoding: wire.IOAME2E,
		mark: codec.Mark{Modules: wire.Loss, Sequence: 5, Single: true, Tagged: true, Tag: 0xcafef00d},
		original: `60000000 0008 00 01 fe800000000000000000000000000001 ff020000000000000000000000000002
			3b 00 05 02 0000 01 00`,
		marked: `60000000 0020 00 01 fe800000000000000000000000000001 ff020000000000000000000000000002
			3c 00 05 02 0000 01 00
			3b 02 0100 11 0a 00 03 0000 4000 80000005 3e 05 01 cafef00d 00`,
	},
	{
		name: "ioam-trace delay,loss, tagged", encoding: wire.IOAMTrace,
		mark: codec.Mark{Modules: wire.Delay | wire.Loss, Sent: 0xeb6f8d80_40000000, Sequence: 0x00120007, Single: true, Tagged: true, Tag: 0xcafef00d},
		original: `60000000 0008 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			03e8 07d0 0008 abcd`,
		marked: `60000000 0098 00 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			11 11 0100 31 6a 00 00 0000 1818 b0000000 ` + zeros96 + `
			11 12 00 03 0000 7000 80120007 eb6f8d8040000000 3e 05 01 cafef00d 01 03 000000
			03e8 07d0 0008 abcd`,
	},
	{
		name: "pdm, first packet", encoding: wire.PDM,
		mark: codec.Mark{Modules: wire.Loss, Sequence: 8000, Single: true},
		original: `60000000 0008 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			03e8 07d0 0008 abcd`,
		marked: `60000000 0018 3c 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			11 01 0f 0a 00 00 1f40 0000 0000 0000 01 00
			03e8 07d0 0008 abcd`,
	},
	{
		name: "pdm tagged reply, after hop-by-hop", encoding: wire.PDM,
		mark: codec.Mark{Modules: wire.Loss, Sequence: 1000, Single: true, Echo: pdmReply.Echo, Tagged: true, Tag: 0xcafef00d},
		original: `60000000 0008 00 01 fe800000000000000000000000000001 ff020000000000000000000000000002
			3b 00 05 02 0000 01 00`,
		marked: `60000000 0020 00 01 fe800000000000000000000000000001 ff020000000000000000000000000002
			3c 00 05 02 0000 01 00
			3b 02 0f 0a 1d 24 03e8 1f40 9184 e35f 3e 05 01 cafef00d 01 01 00`,
	},
	{
		name: "altmark", encoding: wire.AltMark,
		mark: codec.Mark{Block: codec.AltMark{Flow: 0xabcde, Delay: true}},
		original: `60000000 0008 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			03e8 07d0 0008 abcd`,
		marked: `60000000 0010 3c 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			11 00 12 04 abcde400
			03e8 07d0 0008 abcd`,
	},
	{
		name: "altmark tagged, after hop-by-hop", encoding: wire.AltMark,
		mark: codec.Mark{Block: codec.AltMark{Flow: 0x00001, Loss: true}, Tagged: true, Tag: 0xcafef00d},
		original: `60000000 0008 00 01 fe800000000000000000000000000001 ff020000000000000000000000000002
			3b 00 05 02 0000 01 00`,
		marked: `60000000 0018 00 01 fe800000000000000000000000000001 ff020000000000000000000000000002
			3c 00 05 02 0000 01 00
			3b 01 12 04 00001800 3e 05 01 cafef00d 00`,
	},
	{
		name: "native tagged loss", encoding: wire.Native,
		mark: codec.Mark{Modules: wire.Loss, Sequence: 5, Single: true, Tagged: true, Tag: 0xcafef00d},
		original: `60000000 0008 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			03e8 07d0 0008 abcd`,
		marked: `60000000 0018 3c 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			11 01  1e 08 80000005 cafef00d  01 02 0000
			03e8 07d0 0008 abcd`,
	},
	{
		name: "native tagged delay,loss", encoding: wire.Native,
		mark: codec.Mark{Modules: wire.Delay | wire.Loss, Sent: 0xeb6f8d80_40000000, Received: 0xeb6f8d81_80000001, Sequence: 0x00120007, Tagged: true, Tag: 0xcafef00d},
		original: `60000000 0008 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			03e8 07d0 0008 abcd`,
		marked: `60000000 0028 3c 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			11 03  3e 10 eb6f8d8040000000 eb6f8d8180000001  1e 08 00120007 cafef00d  01 00
			03e8 07d0 0008 abcd`,
	},
	{
		name: "native tagged sparse", encoding: wire.Native,
		mark: codec.Mark{Modules: wire.Delay | wire.Loss, Sent: 0xeb6f8d80_40000000, Sequence: 0x00120007, Single: true, Sparse: true, Tagged: true, Tag: 0xcafef00d},
		original: `60000000 0008 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			03e8 07d0 0008 abcd`,
		marked: `60000000 0028 3c 40 20010db8000000000000000000000001 20010db8000000000000000000000002
			11 03  3e 10 eb6f8d8040000000 0000000000000000  1e 09 80120007 04 cafef00d  00
			03e8 07d0 0008 abcd`,
	},
	{
		// length +0c, protocol c8 to fd (+35): sum b25a
		name: "shim tagged loss", encoding: wire.Shim,
		mark:     codec.Mark{Modules: wire.Loss, Sequence: 5, Single: true, Tagged: true, Tag: 0xcafef00d},
		original: handIPv4,
		marked:   `4500 0024 0001 4000 40fd 4da5 c0000201 c6336402  0a c8 08 00 80000005 cafef00d  deadbeef`,
	},
	{
		// outer: length +38, protocol c8 to 11 (-b7): sum b19a
		name: "udp tagged sparse", encoding: wire.UDP,
		mark:     codec.Mark{Modules: wire.Delay | wire.Loss, Sent: 0xeb6f8d80_40000000, Sequence: 0x00120007, Sparse: true, Tagged: true, Tag: 0xcafef00d},
		original: handIPv4,
		marked: `4500 0050 0001 4000 4011 4e65 c0000201 c6336402  ffff c44d 003c 0000
			0f 04 18 00 eb6f8d8040000000 0000000000000000 00120007 cafef00d
			4500 0018 0001 4000 40c8 4de6 c0000201 c6336402 deadbeef`,
	},
	{
		// IP header: total length +12, sum b17c; surplus: 12 7f10 504c 8000 0005 1234 5678 cafe f00d, sum 732d
		name: "udp-option tagged delay,loss, even", encoding: wire.UDPOption,
		mark: codec.Mark{Modules: wire.Delay | wire.Loss, Sequence: 5, Single: true, Ticks: 0x12345678, Tagged: true, Tag: 0xcafef00d},
		original: `4500 0020 0001 4000 4011 4e95 c0000201 c6336402
			03e8 07d0 000c 0000 deadbeef`,
		marked: `4500 0032 0001 4000 4011 4e83 c0000201 c6336402
			03e8 07d0 000c 0000 deadbeef  8cd2 7f 10 504c 80000005 12345678 cafef00d`,
	},
	{
		// IP header: total length +10, sum b17b; TCP sum 05c7: option f11b, data offset +4000,
		// length +10, sum 36f3
		name: "tcp-option tagged delay,loss", encoding: wire.TCPOption,
		mark: codec.Mark{Modules: wire.Delay | wire.Loss, Sequence: 5, Single: true, Ticks: 0x12345678, Tagged: true, Tag: 0xcafef00d},
		original: `4500 002c 0001 4000 4006 4e94 c0000201 c6336402
			03e8 07d0 00000001 00000002 50 18 2000 fa38 0000 deadbeef`,
		marked: `4500 003c 0001 4000 4006 4e84 c0000201 c6336402
			03e8 07d0 00000001 00000002 90 18 2000 c90c 0000 fd 10 504c 80000005 12345678 cafef00d deadbeef`,
	},
}

func TestHandVectors(t *testing.T) {
	for _, v := range handVectors {
		t.Run(v.name, func(t *testing.T) {
			original, marked := unhex(t, v.original), unhex(t, v.marked)
			got, mark, encoding, err := codec.Extract(marked, wire.Port)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, original) || mark != v.mark || encoding != v.encoding {
				t.Errorf("Extract gave %v %+v\n%x, want %v %+v\n%x", encoding, mark, got, v.encoding, v.mark, original)
			}
			got, err = codec.Insert(original, v.encoding, v.mark, wire.Port)
			if err != nil {
				t.Fatal(err)
			}
			if v.encoding == wire.UDP {
				if port := got[20:22]; port[0] < 0xc0 {
					t.Errorf("source port %x is not a hash from c000 up", port)
				}
				copy(got[20:22], marked[20:22])
			}
			if !bytes.Equal(got, marked) {
				t.Errorf("Insert gave\n%x, want\n%x", got, marked)
			}
		})
	}
}
