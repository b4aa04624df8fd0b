package source

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// Of struct __sk_buff.
const (
	contextSize           = 192
	contextMark           = 8
	contextIngressIfindex = 36
	contextGSOSegs        = 164
	contextGSOSize        = 176
)

// runAs sends a packet through the egress program as part of a socket buffer with these
// properties: values of fields of struct __sk_buff by their offset.
func (s *Source) runAs(t *testing.T, packet []byte, fields map[int]uint32) []byte {
	t.Helper()
	context := make([]byte, contextSize)
	for offset, value := range fields {
		binary.NativeEndian.PutUint32(context[offset:], value)
	}
	options := ebpf.RunOptions{Data: frame(packet), DataOut: make([]byte, len(packet)+256), Context: context}
	if _, err := s.objects.SourceTc.Run(&options); err != nil {
		t.Fatalf("run %x: %v", packet, err)
	}
	return options.DataOut[14:]
}

// ready says that the kernel reserves room in the connections of both families.
func (s *Source) ready(t *testing.T) {
	t.Helper()
	if err := s.objects.TcpOptionFamilies.Set(uint32(wire.ClassIPv4 | wire.ClassIPv6)); err != nil {
		t.Fatal(err)
	}
}

// reserved returns the golden TCP segments without mark, and with the room for one.
func reserved(t *testing.T) (plain, rooms [][]byte) {
	t.Helper()
	vectors, err := codec.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		if v.Encoding != wire.TCPOption {
			continue
		}
		room, err := codec.ReserveTCPOption(v.Original)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		plain, rooms = append(plain, v.Original), append(rooms, room)
	}
	if len(plain) < 10 {
		t.Fatalf("%d vectors of TCP options", len(plain))
	}
	return plain, rooms
}

// TestTCPOptionIsFilled compares segments whose room was filled with those of the codec.
// Their checksum is complete, so that the program has to correct it.
func TestTCPOptionIsFilled(t *testing.T) {
	plain, rooms := reserved(t)
	for _, modules := range sets {
		t.Run(modules.String(), func(t *testing.T) {
			s := open(t, all(wire.TCPOption, modules))
			next := map[any]uint32{}
			for i, room := range rooms {
				before := time.Now()
				out := run(t, s.objects.SourceTc, room)
				after := time.Now()
				m := checkMarked(t, out, plain[i], wire.TCPOption)
				if m.Modules != modules {
					t.Errorf("modules %v of %x", m.Modules, room)
				}
				if at := m.SentNear(before); modules&wire.Delay != 0 &&
					(at.Before(before.Add(-time.Microsecond)) || at.After(after.Add(time.Microsecond))) {
					t.Errorf("sent %v, not from %v to %v", at, before, after)
				}
				if modules&wire.Loss == 0 {
					continue
				}
				want, known := next[keyOf(room)]
				if !known && m.Sequence%codec.FlowStride != 0 || known && m.Sequence != want || !m.Single {
					t.Errorf("number %d, single %v, want %d (%v)", m.Sequence, m.Single, want, known)
				}
				next[keyOf(room)] = (m.Sequence + 1) & wire.SequenceMask
			}
			tally := s.mustTally(t)
			if n := uint64(len(rooms)); tally.Marked != n || tally.Seen != n || tally.BytesAdded != 12*n {
				t.Errorf("%d segments: %+v", n, tally)
			}
		})
	}
}

// Segments of a buffer share its mark: it has the first of as many numbers.
func TestTCPOptionNumbersSegments(t *testing.T) {
	s := open(t, all(wire.TCPOption, wire.Loss))
	_, rooms := reserved(t)
	next := s.mark(t, rooms[0]).Sequence + 1
	for _, segments := range []uint32{5, 1, 44, 2} {
		out := s.runAs(t, rooms[0], map[int]uint32{contextGSOSegs: segments, contextGSOSize: 1400})
		_, m, _, err := codec.Extract(out, wire.Port)
		if err != nil || m.Sequence != next || m.Single != (segments == 1) {
			t.Errorf("%d segments: %+v, %v, want number %d", segments, m, err, next)
		}
		next += segments
	}
	if tally := s.mustTally(t); tally.Marked != 53 || tally.BytesAdded != 12*53 {
		t.Errorf("tally %+v", tally)
	}
}

// A burst never begins with zero, which stands for no number.
func TestTCPOptionSkipsNumberZero(t *testing.T) {
	s := open(t, all(wire.TCPOption, wire.Loss))
	_, rooms := reserved(t)
	s.mark(t, rooms[0])
	var index uint32
	var slot sourceSlot
	entries := s.objects.Slots.Iterate()
	for entries.Next(&index, &slot) {
		slot.Numbers.Next = 0
		if err := s.objects.Slots.Put(index, slot); err != nil {
			t.Fatal(err)
		}
	}
	out := s.runAs(t, rooms[0], map[int]uint32{contextGSOSegs: 3, contextGSOSize: 1400})
	_, m, _, err := codec.Extract(out, wire.Port)
	if err != nil || m.Sequence != codec.FlowStride || m.Single {
		t.Errorf("%+v, %v", m, err)
	}
}

// A segment without space for the option is sent unmarked or in the next encoding.
func TestTCPOptionLeaves(t *testing.T) {
	const syn, ack = 0x02, 0x10
	list := Settings{Policy: Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.TCPOption, wire.Native, wire.UDP}}}
	plain4 := sealTCP(ipv4("192.0.2.1", "198.51.100.2", 6, tcp(1, 2, ack, nil, []byte("x"))))
	plain6 := sealTCP(ipv6("2001:db8::1", "2001:db8::2", 6, tcp(1, 2, ack, nil, []byte("x"))))
	syn4 := sealTCP(ipv4("192.0.2.1", "198.51.100.2", 6, tcp(1, 2, syn, nil, nil)))
	syn6 := sealTCP(ipv6("2001:db8::1", "2001:db8::2", 6, tcp(1, 2, syn, nil, nil)))
	room4, err := codec.ReserveTCPOption(plain4)
	if err != nil {
		t.Fatal(err)
	}
	marked4, err := codec.Insert(plain4, wire.TCPOption, codec.Mark{Modules: wire.Loss, Sequence: 1}, wire.Port)
	if err != nil {
		t.Fatal(err)
	}
	forwarded := map[int]uint32{contextIngressIfindex: 1}
	for _, row := range []struct {
		name     string
		settings Settings
		detached bool
		packet   []byte
		fields   map[int]uint32
		encoding wire.Encoding // of the mark, if want is marked
		want     string
	}{
		{"room", list, false, room4, nil, wire.TCPOption, "marked"},
		{"no room, IPv4", list, false, plain4, nil, 0, "tcp_options"},
		{"no room, IPv6", list, false, plain6, nil, wire.Native, "marked"},
		{"handshake, IPv4", list, false, syn4, nil, 0, "handshake"},
		{"handshake, IPv6", list, false, syn6, nil, 0, "handshake"},
		{"program not attached, IPv4", list, true, plain4, nil, wire.UDP, "marked"},
		{"program not attached, IPv6", list, true, syn6, nil, wire.Native, "marked"},
		{"nothing else in the list", Settings{Policy: Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.TCPOption}}}, true, plain6, nil, 0, "encoding"},
		{"marked by another host", list, false, marked4, forwarded, 0, "existing_option"},
		{"room of another host", list, false, room4, forwarded, wire.UDP, "marked"},
		{"marked here before", list, false, marked4, nil, 0, "existing_option"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := open(t, row.settings)
			if !row.detached {
				s.ready(t)
			}
			out := s.runAs(t, row.packet, row.fields)
			tally := s.mustTally(t)
			if row.want != "marked" {
				if tally.Skipped[row.want] != 1 || !bytes.Equal(out, row.packet) {
					t.Errorf("%x became %x: %+v", row.packet, out, tally)
				}
				return
			}
			_, _, encoding, err := codec.Extract(out, wire.Port)
			if tally.Marked != 1 || encoding != row.encoding || err != nil {
				t.Errorf("%x became %x in %v, %v: %+v", row.packet, out, encoding, err, tally)
			}
		})
	}
}
