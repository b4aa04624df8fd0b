package device

import (
	"net/netip"
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

// Each datagram of a UDP segmentation buffer arrives as it was sent, whichever device
// segments the buffer and whether or not its receiver accepts merged datagrams. Where
// that is impossible, the buffer is not marked.
func TestUDPSegmentationBuffers(t *testing.T) {
	for _, row := range segmentations {
		t.Run(row.name, func(t *testing.T) {
			hosts := newPath(t)
			hosts.a.offload("to-r", row.out)
			hosts.r.offload("to-b", row.through)
			hosts.b.offload("to-r", row.in)
			for address, want := range map[string]string{farIPv4: row.ipv4, farIPv6: row.ipv6} {
				address := netip.MustParseAddr(address)
				p := measure(hosts.a, "to-r", hosts.b, "to-r", "udp-option,native,udp", address)
				for _, merges := range []bool{false, true} {
					f := open(hosts.a, hosts.b, address, merges)
					f.bursts(80, 600)
					p.expect(family(address)+" bursts", want)
					f.close()
				}
				p.close()
			}
		})
	}
}

// What a router merged and marks arrives, TCP and UDP. How much it merges depends on when
// packets arrive.
func TestMergedBuffers(t *testing.T) {
	for name, row := range map[string]struct{ in, out string }{
		"merged":               {"gro on rx-udp-gro-forwarding on", ""},
		"merged, no offloads":  {"gro on rx-udp-gro-forwarding on", "tso off gso off tx-udp-segmentation off"},
		"merged, no checksums": {"gro on rx-udp-gro-forwarding on", "tx off"},
		"listed":               {"gro on rx-gro-list on", ""},
		"listed, no offloads":  {"gro on rx-gro-list on", "tso off gso off tx-udp-segmentation off tx-gso-list off"},
		"one by one, no sums":  {"gro off", "tx off"},
	} {
		t.Run(name, func(t *testing.T) {
			hosts := newPath(t)
			hosts.a.offload("to-r", "tso off gso off tx-udp-segmentation off tx-gso-list off")
			hosts.r.offload("to-a", row.in)
			hosts.r.offload("to-b", row.out)
			for _, address := range parse(farIPv4, farIPv6) {
				p := measure(hosts.r, "to-b", hosts.b, "to-r", "native,udp", address)
				for _, merges := range []bool{false, true} {
					f := open(hosts.a, hosts.b, address, merges)
					f.bursts(80, 600)
					p.settle()
					f.close()
				}
				transfer(hosts.a, hosts.b, address, 1<<20)
				p.settle()
				p.close()
			}
		})
	}
}

// Only encodings that the kernel can segment mark TCP segmentation buffers: the next one
// of the list marks what shim and ipip cannot.
func TestTCPSegmentationBuffers(t *testing.T) {
	for list, want := range map[string]string{"shim": unsegmented, "ipip": unsegmented, "shim,udp": inUDP, "ipip,udp": inUDP} {
		t.Run(list, func(t *testing.T) {
			hosts := newPath(t)
			address := netip.MustParseAddr(farIPv4)
			p := measure(hosts.a, "to-r", hosts.b, "to-r", list, address)
			transfer(hosts.a, hosts.b, address, 1<<20)
			p.expect("TCP", want)
		})
	}
}
