//go:build long

package destination

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// TestLongPathProbe: a probe says whether its mark was read, and is no packet of a flow.
func TestLongPathProbe(t *testing.T) {
	mark := codec.Mark{Modules: wire.Loss, Sequence: 5, Single: true}
	for _, row := range []struct {
		name     string
		encoding wire.Encoding
		six      bool
		damage   func([]byte)
		peers    string
		want     wire.ProbeRead
	}{
		{"native", wire.Native, true, nil, "2001:db8::/64", wire.ProbeMarkRead},
		{"shim", wire.Shim, false, nil, "192.0.2.0/24", wire.ProbeMarkRead},
		{"ipip", wire.IPIP, false, nil, "192.0.2.0/24", wire.ProbeMarkRead},
		{"udp", wire.UDP, false, nil, "192.0.2.0/24", wire.ProbeMarkRead},
		{"udp-option IPv4", wire.UDPOption, false, nil, "192.0.2.0/24", wire.ProbeMarkRead},
		{"udp-option IPv6", wire.UDPOption, true, nil, "2001:db8::/64", wire.ProbeMarkRead},
		{"not a peer", wire.UDPOption, false, nil, "203.0.113.0/24", wire.ProbeUnread},
		{"checksum of the option", wire.UDPOption, false, func(b []byte) { b[len(b)-1]++ }, "192.0.2.0/24", wire.ProbeMalformed},
		{"not a probe", wire.UDPOption, false, func(b []byte) { b[28]++ }, "192.0.2.0/24", wire.ProbeUnread},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, xdp := range []bool{false, true} {
				d := open(t, Settings{Peers: Peers{netip.MustParsePrefix(row.peers): {}}, XDP: xdp})
				program := d.objects.DestinationTc
				if xdp {
					program = d.objects.DestinationXdp
				}
				in, err := codec.Insert(probePacket(row.six), row.encoding, mark, wire.Port)
				if err != nil {
					t.Fatal(err)
				}
				if row.damage != nil {
					row.damage(in)
				}
				out := run(t, program, frame(in), 0)
				at := 14 + 20 + 8
				if row.six {
					at = 14 + 40 + 8
				}
				if got := wire.ProbeRead(binary.BigEndian.Uint16(out[at+4:])); got != row.want {
					t.Errorf("xdp %v: says %d, want %d: %x", xdp, got, row.want, out)
				}
				if sum := binary.BigEndian.Uint16(out[at+4:]) + binary.BigEndian.Uint16(out[at+6:]); sum != 0xffff {
					t.Errorf("xdp %v: sum of the words is %x", xdp, sum)
				}
				if tally := d.mustTally(t); tally.Packets != 0 || tally.Rejected != 0 || tally.Unmarked != 1 || len(d.takeFlows(t)) != 0 {
					t.Errorf("xdp %v: counted as marked: %+v", xdp, tally)
				}
			}
		})
	}
}

// TestLongPathProbeWithWrongClock: where clocks differ so much that marks without a time would be
// rejected, with their packets, no path passes, although a mark with a time is still accepted.
func TestLongPathProbeWithWrongClock(t *testing.T) {
	for _, row := range []struct {
		ahead time.Duration
		want  wire.ProbeRead
	}{
		{0, wire.ProbeMarkRead}, {15 * time.Second, wire.ProbeMarkRead}, {-15 * time.Second, wire.ProbeMarkRead},
		{18 * time.Second, wire.ProbeMalformed}, {-18 * time.Second, wire.ProbeMalformed}, {time.Hour, wire.ProbeMalformed},
	} {
		d := keyed(t)
		for _, encoding := range []wire.Encoding{wire.UDPOption, wire.Shim} {
			w := tagger{probePacket(false), encoding, pairKey}
			got := foundBy(t, d, w.write(t, 5, true, time.Now().Add(row.ahead)))
			if encoding == wire.Shim && got != wire.ProbeMarkRead { // the mark is left in
				got = wire.ProbeMalformed
			}
			if got != row.want {
				t.Errorf("%v, clocks %v apart: says %d, want %d", encoding, row.ahead, got, row.want)
			}
		}
	}
	d := open(t, Settings{Peers: Peers{{}: {}}}) // without a key the time does not matter
	if got := foundBy(t, d, tagger{probePacket(false), wire.Shim, pairKey}.write(t, 5, true, time.Now().Add(time.Hour))); got != wire.ProbeMarkRead {
		t.Errorf("without a key: says %d", got)
	}
}
