package lab_test

import (
	"net/netip"
	"testing"
)

// TestVXLAN: what a tunnel carries over marked packets arrives unchanged, with the checksums and
// the segmentation left to devices or not, and also if the tunnel's own packets are marked.
func TestVXLAN(t *testing.T) {
	t.Parallel()
	b := up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n")
	for _, end := range []struct{ host, device, local, remote, address string }{
		{"a", "b", firstIPv4.String(), secondIPv4.String(), "10.99.0.1/24"},
		{"b", "a", secondIPv4.String(), firstIPv4.String(), "10.99.0.2/24"},
	} {
		b.exec(end.host, "ip", "link", "add", "vx0", "type", "vxlan", "id", "7", "dstport", "4789",
			"local", end.local, "remote", end.remote, "dev", end.device)
		b.exec(end.host, "ip", "addr", "add", end.address, "dev", "vx0")
		b.exec(end.host, "ip", "link", "set", "vx0", "up")
	}
	inside := netip.MustParseAddr("10.99.0.2")
	for _, row := range []struct {
		name, tunnel, below string // offload of checksums
		above               bool
		least               uint64 // marked
	}{
		{"offload", "tx on", "tx on", false, 0}, // most are one large packet for many, or have no room for a mark
		{"no offload of the tunnel", "tx off", "tx on", false, 50},
		{"no offload below", "tx on", "tx off", false, 0},
		{"no offload", "tx off", "tx off", false, 50},
		{"marks above as well", "tx on", "tx on", true, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := &bed{b.Lab, t}
			b.offload("a", "vx0", row.tunnel)
			b.offload("a", "b", row.below)
			before := b.dropped()
			d, s := b.probe("b", "destination", "a"), b.probe("a", "source", "b")
			tunnels := []*runningProbe{}
			if row.above {
				tunnels = append(tunnels, b.probe("a", "source", "vx0"), b.probe("b", "destination", "vx0"))
			}
			b.carry("a", "b", inside, 4<<20).finish()
			b.datagrams("a", "b", inside, 50, 100)
			if marked, _ := b.agreed(s, d, before); marked.Marked < row.least {
				t.Errorf("marked %d, want at least %d", marked.Marked, row.least)
			}
			if row.above {
				if marked, _ := b.agreed(tunnels[0], tunnels[1], before); marked.Marked < 50 {
					t.Errorf("marked %d in the tunnel, want at least 50", marked.Marked)
				}
			}
			for _, counter := range []string{"TcpInCsumErrors", "UdpInCsumErrors"} {
				if n := b.counter("b", counter); n != 0 {
					t.Errorf("%s: %d", counter, n)
				}
			}
		})
	}
}
