package device

import (
	"testing"
)

// Addresses of a and b, in one network or on both sides of a router.
const (
	nearIPv4, nearIPv6     = "10.78.1.1", "fd78:0:0:1::1"
	routerIPv4, routerIPv6 = "10.78.1.2", "fd78:0:0:1::2"
	beyondIPv4, beyondIPv6 = "10.78.2.1", "fd78:0:0:2::1"
	farIPv4, farIPv6       = "10.78.2.2", "fd78:0:0:2::2"
)

// path is host a, a router and host b. Devices are named after what is behind them.
type path struct{ a, r, b host }

func newPath(t *testing.T) path {
	t.Helper()
	p := path{newHost(t), newHost(t), newHost(t)}
	p.r.forward()
	connect(p.a, p.r, "to-r", "to-a")
	connect(p.r, p.b, "to-b", "to-r")
	p.a.address("to-r", nearIPv4+"/24", nearIPv6+"/64")
	p.r.address("to-a", routerIPv4+"/24", routerIPv6+"/64")
	p.r.address("to-b", beyondIPv4+"/24", beyondIPv6+"/64")
	p.b.address("to-r", farIPv4+"/24", farIPv6+"/64")
	p.a.run("ip route add default via "+routerIPv4, "ip -6 route add default via "+routerIPv6)
	p.b.run("ip route add default via "+beyondIPv4, "ip -6 route add default via "+beyondIPv6)
	return p
}

// offload sets features of a device, as "tso off gso on".
func (h host) offload(device, features string) {
	h.t.Helper()
	if features != "" {
		h.run("ethtool -K " + device + " " + features)
	}
}

// expect checks how most packets were marked.
func (p *probes) expect(what, want string) {
	p.t.Helper()
	if got := p.settle(); got != want {
		p.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// How packets may be marked.
const (
	native      = "`native`"
	inUDP       = "`udp`"
	unsegmented = "unmarked (gso)"
)

// segmentations are the ways of UDP segmentation buffers, and how they are marked.
var segmentations = []struct {
	name             string
	out, through, in string // features: out of the source, out of the router, into the destination
	ipv4, ipv6       string
}{
	{"in one piece to the socket", "", "", "", unsegmented, native},
	{"in one piece to a router, which segments", "", "tx-udp-segmentation off", "", unsegmented, native},
	{"in one piece to a router, which computes checksums", "", "tx off", "", unsegmented, native},
	{"segmented at the source", "tx-udp-segmentation off", "", "", inUDP, native},
	{"segmented at the source, without UDP tunnel offload", "tx-udp_tnl-segmentation off", "", "", inUDP, native},
	{"segmented at the source, without any offload of segmentation", "tso off gso off tx-udp-segmentation off", "", "", inUDP, native},
	{"segmented at the source, which computes checksums", "tx off", "", "", unsegmented, unsegmented},
	{"segmented at the source, checksums of the router", "tx-udp-segmentation off", "tx off", "gro on", inUDP, native},
	{"segmented at the source, merged by the destination", "tx-udp-segmentation off", "", "gro on rx-udp-gro-forwarding on", inUDP, native},
	{"segmented at the source, merged as a list by the destination", "tx-udp-segmentation off", "", "gro on rx-gro-list on", inUDP, native},
}
