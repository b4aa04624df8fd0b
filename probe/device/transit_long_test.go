//go:build long

package device

import (
	"net/netip"
	"testing"

	"pillion.dev/probe/destination"
	"pillion.dev/wire"
)

// TestLongForeignMarksStay: a router that reads its own marks leaves those of hosts behind it,
// unless they are in one of its prefixes.
func TestLongForeignMarksStay(t *testing.T) {
	for _, row := range []struct {
		name   string
		own    []string // prefixes behind the router
		xdp    bool
		others uint64 // of 20 packets to b, those that the router leaves
		amends string // destinations of packets into whose marks it writes
		unread bool   // a is a peer of the router for that only
	}{
		{name: "local", others: 20},
		{name: "local, amended, xdp", xdp: true, others: 20, amends: "dst=" + farIPv4 + "|dst=" + farIPv6},
		{name: "prefixes behind", own: []string{farIPv4 + "/24", farIPv6 + "/64"}},
		{name: "other prefixes behind, amended", own: []string{"10.99.0.0/16", "fd99::/64"}, others: 20, amends: "dst=" + farIPv4 + "|dst=" + farIPv6},
		{name: "prefixes behind, unread", own: []string{farIPv6 + "/64"}, others: 20, amends: "dst=" + farIPv6, unread: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			hosts := newPath(t)
			settings := destination.Settings{DeliveredOnly: true, XDP: row.xdp}
			for _, prefix := range row.own {
				settings.Own = append(settings.Own, netip.MustParsePrefix(prefix))
			}
			peer := destination.Peer{Amends: filters(t, row.amends), Unread: row.unread}
			settings.Peers = destination.Peers{{}: peer}
			router := openDestination(hosts.r, "to-a", settings)
			for _, encoding := range wire.Encodings() {
				for _, addresses := range [][2]string{{routerIPv4, farIPv4}, {routerIPv6, farIPv6}} {
					near, far := netip.MustParseAddr(addresses[0]), netip.MustParseAddr(addresses[1])
					if !marksDatagrams(encoding, near) || row.unread && encoding != wire.Native {
						continue
					}
					marksStay(t, hosts, router, encoding, near, far, row.others, peer)
				}
			}
		})
	}
}
