//go:build long

package device

import (
	"net/netip"
	"testing"
)

// Each datagram of a UDP segmentation buffer arrives as it was sent, whichever device
// segments the buffer and whether or not its receiver accepts merged datagrams. Where
// that is impossible, the buffer is not marked.
func TestLongUDPSegmentationBuffers(t *testing.T) {
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

// Only encodings that the kernel can segment mark TCP segmentation buffers: the next one
// of the list marks what shim and ipip cannot.
func TestLongTCPSegmentationBuffers(t *testing.T) {
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

// What a router merged and marks arrives, TCP and UDP. How much it merges depends on when
// packets arrive.
func TestLongMergedBuffers(t *testing.T) {
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
