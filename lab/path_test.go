package lab_test

import (
	"net/netip"
	"strings"
	"testing"
)

// narrow is a path whose second link has a smaller MTU than the first.
const narrow = `
hosts: {a: {}, r: {forward: true}, b: {}}
links:
  - ends: [a, r]
  - ends: [r, b]
    mtu: 1400
`

// TestNarrowPath transfers data over a path with a smaller MTU than the device: a mark must
// not make a packet too large, or TCP would retransmit it forever.
func TestNarrowPath(t *testing.T) {
	tests := map[string]struct{ options, features string }{
		"native and udp":         {"", ""},
		"native and udp, no gso": {"", "tso off gso off"},
		"shim, no gso":           {"--encoding shim", "tso off gso off"},
		"ipip, no gso":           {"--encoding ipip", "tso off gso off"},
	}
	addresses := map[string]string{"ipv6": "fd77:0:0:2::2", "ipv4": "10.77.2.2"}
	for name, test := range tests {
		for family, address := range addresses {
			if test.options != "" && family == "ipv6" {
				continue
			}
			t.Run(name+", "+family, func(t *testing.T) {
				b := up(t, narrow)
				b.offload("a", "r", test.features)
				d := b.probe("b", "destination", "r")
				s := b.probe("a", "source", "r", strings.Fields(test.options)...)
				b.carry("a", "b", netip.MustParseAddr(address), 8<<20).finish()
				marked, read := both(s, d)
				if marked.Marked == 0 || read.Packets == 0 {
					t.Errorf("marked %d, read %d", marked.Marked, read.Packets)
				}
				t.Logf("marked %d, skipped mtu %d, gso %d; lost on the way %d", marked.Marked,
					marked.Skipped["mtu"], marked.Skipped["gso"], marked.Marked-read.Packets)
			})
		}
	}
}
