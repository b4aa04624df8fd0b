package destination

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
	"pillion.dev/wire/test/codec"
)

// probePacket is a path probe as its source sends it, before it is marked.
func probePacket(six bool) []byte {
	data := wire.Probe{Marked: true, Token: 7}.Append(nil)
	udp := binary.BigEndian.AppendUint16(nil, 4000)
	udp = binary.BigEndian.AppendUint16(udp, wire.ProbePort)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(data)))
	udp = append(binary.BigEndian.AppendUint16(udp, 0), data...)
	if six {
		src, dst := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
		head := binary.BigEndian.AppendUint16([]byte{0x60, 0, 0, 0}, uint16(len(udp)))
		head = append(append(append(head, 17, 64), src.AsSlice()...), dst.AsSlice()...)
		return append(head, udp...)
	}
	head := binary.BigEndian.AppendUint16([]byte{0x45, 0}, uint16(20+len(udp)))
	head = append(head, 0, 0, 0, 0, 64, 17, 0x8e, 0x82, 192, 0, 2, 1, 198, 51, 100, 2)
	return append(head, udp...)
}

// TestPathProbeUnderFilters: filters of sessions select flows, not path probes.
func TestPathProbeUnderFilters(t *testing.T) {
	filter, err := fivetuple.ParseFilter("proto=tcp")
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, Settings{Peers: Peers{netip.MustParsePrefix("192.0.2.0/24"): {Rules: Rules(filter)}}})
	in, err := codec.Insert(probePacket(false), wire.Shim, codec.Mark{Modules: wire.Loss, Sequence: 5, Single: true}, wire.Port)
	if err != nil {
		t.Fatal(err)
	}
	if got := foundBy(t, d, frame(in)); got != wire.ProbeMarkRead {
		t.Errorf("says %d, want %d", got, wire.ProbeMarkRead)
	}
}

// foundBy is what the program says of a path probe of IPv4.
func foundBy(t *testing.T, d *Destination, in []byte) wire.ProbeRead {
	t.Helper()
	out := run(t, d.objects.DestinationTc, in, 0)
	const at = 14 + 20 + 8
	return wire.ProbeRead(binary.BigEndian.Uint16(out[at+4:]))
}
