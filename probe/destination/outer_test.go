package destination

import (
	"encoding/binary"
	"fmt"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// Routers write into the outer header what they would have written into the packet
// itself: DSCP, congestion marks, hops.
func TestOuterHeaderReachesInner(t *testing.T) {
	d := open(t, Settings{})
	const notECT, ect1, ect0, ce = 0, 1, 2, 3
	for _, row := range []struct {
		name               string
		inner, outer, want byte // TOS
		ttl, wantTTL       byte // of the outer header, which began with 64
	}{
		{"unchanged", ect0, ect0, ect0, 64, 64},
		{"congestion experienced on ECT(0)", ect0, ce, ce, 64, 64},
		{"congestion experienced on ECT(1)", ect1, ce, ce, 64, 64},
		{"congestion experienced before", ce, ect0, ce, 64, 64},
		{"ECT(1) on ECT(0)", ect0, ect1, ect1, 64, 64},
		{"ECT(0) on ECT(1)", ect1, ect0, ect1, 64, 64},
		{"ECN cleared", ect0, notECT, ect0, 64, 64},
		{"congestion experienced without ECN", notECT, ce, notECT, 64, 64},
		{"DSCP rewritten", 46<<2 | ect0, 10<<2 | ce, 10<<2 | ce, 64, 64},
		{"hops", 46 << 2, 46 << 2, 46 << 2, 61, 61},
		{"TTL of the outer header raised", 0, 0, 0, 255, 64},
	} {
		for _, encoding := range []wire.Encoding{wire.IPIP, wire.UDP} {
			for _, hook := range hooks {
				t.Run(fmt.Sprintf("%s/%v/%s", row.name, encoding, hook.name), func(t *testing.T) {
					original := rewritten(datagram(), row.inner, 64)
					marked, err := codec.Insert(original, encoding, codec.Mark{Modules: wire.Loss}, wire.Port)
					if err != nil {
						t.Fatal(err)
					}
					marked = rewritten(marked, row.outer, row.ttl)
					want := frame(rewritten(original, row.want, row.wantTTL), hook.tags...)
					checkFrame(t, run(t, hook.program(d), frame(marked, hook.tags...), 0), want)
					if back, _, _, err := codec.Extract(marked, wire.Port); err != nil {
						t.Error(err)
					} else {
						checkFrame(t, frame(back, hook.tags...), want)
					}
				})
			}
		}
	}
}

// datagram is an IPv4 packet with eight bytes of UDP payload.
func datagram() []byte {
	return []byte{
		0x45, 0, 0, 36, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
		0x10, 0, 0x20, 0, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8,
	}
}

// rewritten is the packet with this TOS and TTL in its first header, and the checksum
// computed in full.
func rewritten(packet []byte, tos, ttl byte) []byte {
	b := append([]byte(nil), packet...)
	b[1], b[8], b[10], b[11] = tos, ttl, 0, 0
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum))
	return b
}
