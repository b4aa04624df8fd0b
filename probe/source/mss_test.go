package source

import (
	"bytes"
	"encoding/binary"
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
		{"small enough", syn, mss(1200), 0},
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
						add := wire.UDP.Overhead(modules)
						if version == 6 {
							add = wire.Native.Overhead(modules)
						}
						limit := 1500 - len(packet) + len(row.options) - add
						binary.BigEndian.PutUint16(want[len(want)-len(row.options)+row.at:], uint16(limit))
						sealTCP(want)
					}
					checkClamped(t, s, packet, want, row.at != 0)
				})
			}
		}
	}
}

// checkClamped looks at both directions: what leaves, and what comes.
func checkClamped(t *testing.T, s *Source, packet, want []byte, clamped bool) {
	t.Helper()
	before := s.mustTally(t)
	leaves, _, _, err := codec.Extract(run(t, s.objects.SourceTc, packet), wire.Port)
	if err != nil {
		t.Fatal(err)
	}
	comes := run(t, s.objects.SourceReturn, packet)
	after := s.mustTally(t)
	for name, got := range map[string][]byte{"leaves": leaves, "comes": comes} {
		if sum := tcpChecksum(got); sum != 0 {
			t.Errorf("%s with a TCP checksum that is %#04x off", name, sum)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s\ngot  %x\nwant %x", name, got, want)
		}
	}
	var n uint64
	if clamped {
		n = 2
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
		name   string
		rule   string
		leaves bool // clamped
		comes  bool
	}{
		{"rule about what leaves", "dport=80", true, false},
		{"rule about the answer", "sport=80", false, true},
		{"rule about others", "dport=81", false, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			settings := all(wire.UDP, wire.Loss)
			settings.Rules = parseAll(t, []string{row.rule})
			s := open(t, settings)
			run(t, s.objects.SourceTc, packet)
			if got := s.mustTally(t).MSSClamped == 1; got != row.leaves {
				t.Errorf("leaving: clamped %v", got)
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
