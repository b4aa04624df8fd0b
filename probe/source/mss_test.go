package source

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"net/netip"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

func TestMSSIsClamped(t *testing.T) {
	const syn, synAck, ack = 0x02, 0x12, 0x10
	mss := func(v uint16) []byte { return []byte{2, 4, byte(v >> 8), byte(v)} }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	nop := []byte{1}
	rows := []struct {
		name    string
		flags   uint8
		options []byte
		at      int // of the value among the options; 0: nothing is clamped
	}{
		{"SYN", syn, mss(1460), 2},
		{"SYN-ACK", synAck, mss(1460), 2},
		{"behind others", syn, join([]byte{1, 3, 3, 7, 4, 2}, mss(9000), nop, nop), 8},
		{"on an odd offset", syn, join(nop, mss(1460), nop, nop, nop), 3},
		{"on an odd offset, behind others", synAck, join([]byte{3, 3, 7}, mss(65535), nop), 5},
		{"last of forty bytes", syn, join(bytes.Repeat(nop, 36), mss(1460)), 38},
		{"small enough", syn, mss(480), 0},
		{"no SYN", ack, mss(1460), 0},
		{"no option", syn, nil, 0},
		{"behind the end", syn, join([]byte{0, 0, 0, 0}, mss(1460)), 0},
		{"cut off", syn, []byte{1, 1, 2, 4}, 0},
		{"wrong length", syn, []byte{2, 3, 5, 180}, 0},
		{"option without length", syn, join([]byte{8, 0}, mss(1460), []byte{0, 0}), 0},
		{"option of length one", syn, join([]byte{8, 1}, mss(1460), []byte{0, 0}), 0},
	}
	for _, modules := range sets {
		s := open(t, all(wire.UDP, modules))
		for _, version := range []int{4, 6} {
			for _, row := range rows {
				t.Run(row.name, func(t *testing.T) {
					packet := synOf(version, row.flags, row.options)
					want := append([]byte(nil), packet...)
					if row.at != 0 {
						at := len(want) - len(row.options) + row.at
						announced := int(binary.BigEndian.Uint16(want[at:]))
						binary.BigEndian.PutUint16(want[at:], uint16(lowered(version, announced, 1500, addedTo(version, modules))))
						sealTCP(want)
					}
					checkClamped(t, s, packet, want, row.at != 0)
				})
			}
		}
	}
}

// addedTo is what a mark adds, with the encodings of TestMSSIsClamped.
func addedTo(version int, modules wire.Module) int {
	if version == 6 {
		return wire.Native.Overhead(modules)
	}
	return wire.UDP.Overhead(modules)
}

// lowered is an MSS, so that a segment of it and a mark are what the peer and the path take. Every
// link takes packets of some size, so it is never less than what these need.
func lowered(version, announced, path, add int) int {
	headers, least := 40, 576
	if version == 6 {
		headers, least = 60, 1280
	}
	return min(max(announced, least-headers), path-headers) - add
}

// TestMSSIsMinimum of what the peer announces, the device takes and the path is known to take, less
// what is added.
func TestMSSIsMinimum(t *testing.T) {
	rows := []struct {
		name            string
		announced, path int // path: a limit that was learned, or 0
		want4, want6    int // with 52 and 32 bytes added; 0: what was announced
	}{
		{"that of the device", 1460, 0, 1460 - 52, 1440 - 32},
		{"jumbo frames at the peer", 8960, 0, 1460 - 52, 1440 - 32},
		{"less at the peer", 1340, 0, 1340 - 52, 1340 - 32},
		{"learned", 1460, 1400, 1360 - 52, 1340 - 32},
		{"learned, but less at the peer", 1300, 1400, 1300 - 52, 1300 - 32},
		{"the least of IPv6", 1220, 0, 1220 - 52, 1220 - 32},
		{"fits with a mark on every link of IPv6", 1188, 0, 1188 - 52, 0},
		{"not quite", 1189, 0, 1189 - 52, 1188},
		{"the least of IPv4", 536, 0, 484, 0},
		{"fits with a mark on every link", 484, 0, 0, 0},
		{"tiny", 88, 0, 0, 0},
		{"zero", 0, 0, 0, 0},
		{"largest", 65535, 0, 1460 - 52, 1440 - 32},
	}
	for _, row := range rows {
		s := open(t, all(wire.UDP, wire.Delay|wire.Loss))
		for _, version := range []int{4, 6} {
			peer, want := netip.MustParseAddr("192.0.2.1"), row.want4
			if version == 6 {
				peer, want = netip.MustParseAddr("2001:db8::1"), row.want6
			}
			if row.path != 0 {
				if err := s.LimitPath(peer, row.path); err != nil {
					t.Fatal(err)
				}
			}
			for _, flags := range []uint8{0x02, 0x12} {
				for shift := range 2 { // the value lies on an odd offset, too
					options := append(bytes.Repeat([]byte{1}, shift), 2, 4, byte(row.announced>>8), byte(row.announced))
					options = append(options, bytes.Repeat([]byte{1}, 4*shift-shift)...)
					got := run(t, s.objects.SourceReturn, synOf(version, flags, options))
					at := len(got) - len(options) + shift + 2
					if mss := int(binary.BigEndian.Uint16(got[at:])); mss != cmp.Or(want, row.announced) || tcpChecksum(got) != 0 {
						t.Errorf("%s, IPv%d, flags %#x, offset %d: MSS %d, want %d; checksum off by %#04x",
							row.name, version, flags, at, mss, cmp.Or(want, row.announced), tcpChecksum(got))
					}
				}
			}
		}
	}
}

// checkClamped looks at both directions: what comes is clamped, and what leaves is not.
func checkClamped(t *testing.T, s *Source, packet, want []byte, clamped bool) {
	t.Helper()
	before := s.mustTally(t)
	leaves, _, _, err := codec.Extract(run(t, s.objects.SourceTc, packet), wire.Port)
	if err != nil {
		t.Fatal(err)
	}
	comes := run(t, s.objects.SourceReturn, packet)
	after := s.mustTally(t)
	if !bytes.Equal(leaves, packet) {
		t.Errorf("leaves\ngot  %x\nwant %x", leaves, packet)
	}
	if sum := tcpChecksum(comes); sum != 0 {
		t.Errorf("comes with a TCP checksum that is %#04x off", sum)
	}
	if !bytes.Equal(comes, want) {
		t.Errorf("comes\ngot  %x\nwant %x", comes, want)
	}
	var n uint64
	if clamped {
		n = 1
	}
	if got := after.MSSClamped - before.MSSClamped; got != n {
		t.Errorf("%d clamped, want %d", got, n)
	}
	if after.Seen-before.Seen != 1 {
		t.Error("what comes is counted as what leaves")
	}
}

func synOf(version int, flags uint8, options []byte) []byte {
	segment := tcp(1234, 80, flags, options, nil)
	packet := ipv4("192.0.2.1", "198.51.100.2", 6, segment)
	if version == 6 {
		packet = ipv6("2001:db8::1", "2001:db8::2", 6, segment)
	}
	return sealTCP(packet)
}

// sealTCP puts the TCP checksum right.
func sealTCP(packet []byte) []byte {
	at := 40
	if packet[0]>>4 == 4 {
		at = 20
	}
	packet[at+16], packet[at+17] = 0, 0
	binary.BigEndian.PutUint16(packet[at+16:], tcpChecksum(packet))
	return packet
}

// TestMSSIsUnchanged where the other way's packets would not be marked.
func TestMSSIsUnchanged(t *testing.T) {
	packet := synOf(4, 0x02, []byte{2, 4, 5, 180})
	rows := []struct {
		name  string
		rule  string
		comes bool // clamped
	}{
		{"rule about what leaves", "dport=80", false},
		{"rule about the answer", "sport=80", true},
		{"rule about others", "dport=81", false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			settings := all(wire.UDP, wire.Loss)
			settings.Rules = parseAll(t, []string{row.rule})
			s := open(t, settings)
			run(t, s.objects.SourceTc, packet)
			if s.mustTally(t).MSSClamped != 0 {
				t.Error("leaving: clamped")
			}
			before := s.mustTally(t).MSSClamped
			if got := bytes.Equal(run(t, s.objects.SourceReturn, packet), packet); got == row.comes {
				t.Errorf("coming: left alone %v", got)
			}
			if got := s.mustTally(t).MSSClamped-before == 1; got != row.comes {
				t.Errorf("coming: clamped %v", got)
			}
			if err := s.objects.LeaseUntil.Set(uint64(0)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(run(t, s.objects.SourceReturn, packet), packet) {
				t.Error("clamped without a lease")
			}
		})
	}
}
