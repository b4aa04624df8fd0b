package codec_test

import (
	"bytes"
	"errors"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// tagged returns what marked does, with a tag.
func tagged(t *testing.T, e wire.Encoding) []byte {
	t.Helper()
	packet, m, _, err := codec.Extract(marked(t, e), wire.Port)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = codec.Tag(packet, e, m, countingKey, vectorTime); err != nil {
		t.Fatal(err)
	}
	b, err := codec.Insert(packet, e, m, wire.Port)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestInsertRefusesMark(t *testing.T) {
	both := wire.Delay | wire.Loss
	room := tcpOptions(0x10, bytes.Repeat([]byte{1}, 28), nil) // for 12 bytes of option, not for 16
	packets := map[wire.Encoding][]byte{
		wire.Native: header{v6: true}.with(17, udp(nil)), wire.Shim: header{}.with(17, udp(nil)),
		wire.UDPOption: header{}.with(17, udp(nil)), wire.TCPOption: header{}.with(6, room),
	}
	for _, test := range []struct {
		name     string
		encoding wire.Encoding
		mark     codec.Mark
		want     error
	}{
		{"native, tagged delay", wire.Native, codec.Mark{Modules: wire.Delay, Sent: 1, Tagged: true}, codec.ErrModules},
		{"shim, tagged delay", wire.Shim, codec.Mark{Modules: wire.Delay, Sent: 1, Tagged: true}, codec.ErrModules},
		{"udp-option, tagged delay", wire.UDPOption, codec.Mark{Modules: wire.Delay, Ticks: 1, Tagged: true}, codec.ErrModules},
		{"tcp-option, tagged delay", wire.TCPOption, codec.Mark{Modules: wire.Delay, Ticks: 1, Tagged: true}, codec.ErrModules},
		{"native, tag alone", wire.Native, codec.Mark{Tagged: true}, codec.ErrModules},
		{"native, sparse loss", wire.Native, codec.Mark{Modules: wire.Loss, Sparse: true}, codec.ErrModules},
		{"shim, sparse delay", wire.Shim, codec.Mark{Modules: wire.Delay, Sent: 1, Sparse: true}, codec.ErrModules},
		{"udp-option, tagged burst with number 0", wire.UDPOption, codec.Mark{Modules: wire.Loss, Tagged: true}, codec.ErrEncoding},
		{"tcp-option without room for a tag", wire.TCPOption, codec.Mark{Modules: both, Sequence: 1, Ticks: 1, Tagged: true}, codec.ErrOptionRoom},
		{"tcp-option with room for no tag", wire.TCPOption, codec.Mark{Modules: both, Sequence: 1, Ticks: 1}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := codec.Insert(packets[test.encoding], test.encoding, test.mark, 1); !errors.Is(err, test.want) || (got == nil) != (err != nil) {
				t.Errorf("got %x %v, want %v", got, err, test.want)
			}
		})
	}
}

// TestInsertRefusesTagged: a packet gets no second mark.
func TestInsertRefusesTagged(t *testing.T) {
	for _, test := range []struct {
		was, encoding wire.Encoding
		want          error
	}{
		{wire.UDPOption, wire.UDPOption, codec.ErrMarked},
		{wire.TCPOption, wire.TCPOption, codec.ErrMarked},
		{wire.Native, wire.Native, codec.ErrDestinationOptions},
		{wire.Shim, wire.UDP, codec.ErrMarked},
		{wire.IPIP, wire.Shim, codec.ErrMarked},
		{wire.UDP, wire.UDP, codec.ErrMarked},
	} {
		t.Run(test.was.String()+" "+test.encoding.String(), func(t *testing.T) {
			got, err := codec.Insert(tagged(t, test.was), test.encoding, markOf(test.encoding, wire.Delay|wire.Loss), wire.Port)
			if got != nil || !errors.Is(err, test.want) {
				t.Errorf("got %x %v, want %v", got, err, test.want)
			}
		})
	}
}

// TestReserveTCPOption: what Insert adds beside reserved room has the same length, and neither
// room is a mark.
func TestReserveTCPOption(t *testing.T) {
	for _, s := range segments() {
		packet := header{}.with(6, s.segment)
		for _, test := range []struct {
			name    string
			reserve func([]byte) ([]byte, error)
			want    []byte
		}{
			{"plain", codec.ReserveTCPOption, append([]byte{254, 12, 0x50, 0x4c}, make([]byte, 8)...)},
			{"tagged", codec.ReserveTaggedTCPOption, append([]byte{254, 16, 0x50, 0x4c}, make([]byte, 12)...)},
		} {
			t.Run(s.name+", "+test.name, func(t *testing.T) {
				got, err := test.reserve(packet)
				if err != nil {
					t.Fatal(err)
				}
				end := 20 + int(got[32]>>4)*4
				if room := got[end-len(test.want) : end]; !bytes.Equal(room, test.want) || len(got) != len(packet)+len(test.want) {
					t.Errorf("room %x in %d bytes, want %x in %d", room, len(got), test.want, len(packet)+len(test.want))
				}
				pseudo := append([]byte{0, 6, byte((len(got) - 20) >> 8), byte(len(got) - 20)}, got[12:20]...)
				if sum := checksum(pseudo, got[20:]); sum != 0 {
					t.Errorf("TCP checksum is off by %#04x", sum)
				}
				if _, _, _, err := codec.Extract(got, wire.Port); !errors.Is(err, codec.ErrNotMark) {
					t.Errorf("room read as a mark: %v", err)
				}
			})
		}
	}
}

func TestExtractRefusesTagged(t *testing.T) {
	plain, option, segment := marked(t, wire.UDPOption), tagged(t, wire.UDPOption), tagged(t, wire.TCPOption)
	inside := edit(header{}.with(6, tcp(append([]byte{200, 20, 0, 0}, segment[40:56]...))), 32, 10<<4)
	refuseExtract(t, []refusal{
		{"udp-option, tagged length without tag", edit(plain, 37, 16), codec.ErrMalformed},
		{"tagged udp-option, plain length", edit(option, 37, 12), codec.ErrMalformed},
		{"tagged udp-option, length of 14", edit(option, 37, 14), codec.ErrMalformed},
		{"tagged udp-option, kind", edit(option, 36, 126), codec.ErrNotMark},
		{"tagged udp-option, tag", edit(option, 51, option[51]+1), codec.ErrMalformed}, // the checksum's
		{"tagged udp-option, no number", resum(edit(option, 40, 0, 0, 0, 0)), codec.ErrMalformed},
		{"tagged udp-option, padding", edit(option, 25, 13), codec.ErrMalformed},
		{"tagged tcp-option, plain length", edit(segment, 41, 12), codec.ErrNotMark},
		{"tagged tcp-option, length of 20", edit(segment, 41, 20), codec.ErrNotMark},
		{"tagged tcp-option, room", edit(segment, 40, 254), codec.ErrNotMark},
		{"tagged tcp-option, other experiment", edit(segment, 43, 0), codec.ErrNotMark},
		{"tagged tcp-option, no number", edit(segment, 44, 0, 0, 0, 0), codec.ErrMalformed},
		{"tagged tcp-option inside another", inside, codec.ErrNotMark},
	})
}

// resum corrects the checksum of a tagged option of UDP whose area is not padded.
func resum(packet []byte) []byte {
	packet = bytes.Clone(packet)
	area := packet[len(packet)-18:]
	clear(area[:2])
	sum := checksum([]byte{0, 18}, area)
	area[0], area[1] = byte(sum>>8), byte(sum)
	return packet
}

// TestExtractOption reads the option of one length where that of another could begin.
func TestExtractOption(t *testing.T) {
	plain := header{}.with(6, tcpOptions(0x10, []byte{1, 1, 1, 1}, []byte("data")))
	for _, test := range []struct {
		name string
		mark codec.Mark
	}{
		{"plain behind four no-ops", markOf(wire.TCPOption, wire.Delay|wire.Loss)},
		{"tagged whose end looks like a plain one", codec.Mark{
			Modules: wire.Delay | wire.Loss, Sequence: 0x7d0c504c, Single: true, Ticks: 5, Tagged: true, Tag: 5,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			marked, err := codec.Insert(plain, wire.TCPOption, test.mark, 0)
			if err != nil {
				t.Fatal(err)
			}
			original, m, _, err := codec.Extract(marked, 0)
			if err != nil || m != test.mark || !bytes.Equal(original, plain) {
				t.Errorf("got %+v %v, want %+v", m, err, test.mark)
			}
		})
	}
}
