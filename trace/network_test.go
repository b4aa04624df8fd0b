package trace

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"
	vishnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

// network is hosts, each in a network namespace, and links between them. Link n
// from host x to host y has x at 10.91.n.1 and fd91::n:1, y at .2 and ::n:2.
type network struct {
	t     *testing.T
	hosts map[string]string // to namespaces
}

// settings of every host. Routers limit the rate of ICMP errors by default, too much for
// a test of many traces; and the global limit, which does not apply to types outside the
// mask, drops an answer on one processor while another one refills it.
var settings = map[string]string{
	"net/ipv4/ip_forward":                        "1",
	"net/ipv4/icmp_ratelimit":                    "0",
	"net/ipv4/icmp_ratemask":                     "0",
	"net/ipv4/conf/all/rp_filter":                "0",
	"net/ipv4/conf/default/rp_filter":            "0",
	"net/ipv4/fib_multipath_hash_policy":         "1",
	"net/ipv6/conf/all/forwarding":               "1",
	"net/ipv6/icmp/ratelimit":                    "0",
	"net/ipv6/icmp/ratemask":                     "255", // not an ICMP type
	"net/ipv6/fib_multipath_hash_policy":         "1",
	"net/ipv6/conf/all/accept_dad":               "0",
	"net/ipv6/conf/default/accept_dad":           "0",
	"net/ipv6/conf/all/router_solicitations":     "0",
	"net/ipv6/conf/default/router_solicitations": "0",
	"net/ipv6/conf/default/addr_gen_mode":        "1", // see addLink
}

// newNetwork creates hosts and links: {"a", "b"} connects a and b, and is link 1 if it is
// the first.
func newNetwork(t *testing.T, links [][2]string) *network {
	t.Helper()
	n := &network{t: t, hosts: map[string]string{}}
	for i, ends := range links {
		for _, host := range ends {
			if n.hosts[host] == "" {
				n.addHost(host)
			}
		}
		n.addLink(i+1, ends)
	}
	for i, ends := range links {
		for end, host := range ends {
			if err := netns.AwaitUp(n.hosts[host], fmt.Sprintf("link%d", i+1), four(i+1, end+1)); err != nil {
				t.Fatalf("in host %s: %v", host, err)
			}
		}
	}
	return n
}

func (n *network) addHost(host string) {
	n.t.Helper()
	n.hosts[host] = namespace.New(n.t)
	n.do(host, func() error {
		for path, value := range settings {
			if err := os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}

func (n *network) do(host string, f func() error) {
	n.t.Helper()
	if err := netns.Do(n.hosts[host], f); err != nil {
		n.t.Fatalf("in host %s: %v", host, err)
	}
}

func four(link, end int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("10.91.%d.%d", link, end))
}
func six(link, end int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd91::%x:%d", link, end)) }

func (n *network) addLink(number int, ends [2]string) {
	n.t.Helper()
	far, err := vishnetns.GetFromPath(netns.Path(n.hosts[ends[1]]))
	if err != nil {
		n.t.Fatal(err)
	}
	defer far.Close()
	name := fmt.Sprintf("link%d", number)
	n.do(ends[0], func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: hardware(number, 1)},
			PeerName:  name, PeerNamespace: netlink.NsFd(far), PeerHardwareAddr: hardware(number, 2),
		})
	})
	for i, host := range ends {
		n.do(host, func() error {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			for _, prefix := range addresses(number, i+1) {
				// The default would wait for duplicate address detection.
				err := netlink.AddrAdd(link, &netlink.Addr{Flags: unix.IFA_F_NODAD, IPNet: netOf(prefix)})
				if err != nil {
					return err
				}
			}
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
			// A solicitation of a neighbour that is not up yet is repeated only after a second.
			for _, prefix := range addresses(number, 2-i) {
				err := netlink.NeighSet(&netlink.Neigh{
					LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT,
					IP: prefix.Addr().AsSlice(), HardwareAddr: hardware(number, 2-i),
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func hardware(link, end int) net.HardwareAddr {
	return net.HardwareAddr{2, 0x50, 0x4c, 0, byte(link), byte(end)}
}

// addresses of one end of a link. IPv6 requires a link-local one, which the kernel would
// only add some time later.
func addresses(link, end int) []netip.Prefix {
	local := netip.MustParseAddr(fmt.Sprintf("fe80::%x:%d", link, end))
	return []netip.Prefix{
		netip.PrefixFrom(four(link, end), 24), netip.PrefixFrom(six(link, end), 112), netip.PrefixFrom(local, 64),
	}
}

func netOf(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}

// route routes a link's network from a host to the given ends of links, by flow if there
// are several.
func (n *network) route(host, to string, via ...[2]int) {
	n.t.Helper()
	n.do(host, func() error {
		for _, family := range []struct {
			address func(int, int) netip.Addr
			bits    int
		}{{four, 24}, {six, 112}} {
			var number int
			if _, err := fmt.Sscanf(to, "link%d", &number); err != nil {
				return err
			}
			network := netip.PrefixFrom(family.address(number, 0), family.bits).Masked()
			route := &netlink.Route{Dst: netOf(network)}
			for _, v := range via {
				route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{Gw: family.address(v[0], v[1]).AsSlice()})
			}
			if len(via) == 1 {
				route.Gw, route.MultiPath = route.MultiPath[0].Gw, nil
			}
			if err := netlink.RouteAdd(route); err != nil {
				return fmt.Errorf("route to %s: %w", network, err)
			}
		}
		return nil
	})
}

// newChain returns a, routers r1, r2 and so on, and b, with routes between all.
func newChain(t *testing.T, routers int) *network {
	t.Helper()
	hosts := []string{"a"}
	for i := range routers {
		hosts = append(hosts, fmt.Sprintf("r%d", i+1))
	}
	hosts = append(hosts, "b")
	var links [][2]string
	for i := range hosts[1:] {
		links = append(links, [2]string{hosts[i], hosts[i+1]})
	}
	n := newNetwork(t, links)
	for i, host := range hosts { // host i lies between links i and i+1
		for link := 1; link <= len(links); link++ {
			switch {
			case link < i:
				n.route(host, fmt.Sprintf("link%d", link), [2]int{i, 1})
			case link > i+1:
				n.route(host, fmt.Sprintf("link%d", link), [2]int{i + 1, 2})
			}
		}
	}
	return n
}

// silence prevents a router from sending its own packets, such as ICMP errors; it still
// forwards.
func (n *network) silence(host string) {
	n.t.Helper()
	n.do(host, func() error {
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			rule := netlink.NewRule()
			rule.Family, rule.IifName, rule.Type, rule.Priority = family, "lo", unix.FR_ACT_BLACKHOLE, 1
			if err := netlink.RuleAdd(rule); err != nil {
				return err
			}
		}
		return nil
	})
}

// addDefault adds or replaces the default route through a neighbour.
func addDefault(via netip.Addr) error {
	everywhere := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if via.Is6() {
		everywhere = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netlink.RouteReplace(&netlink.Route{Dst: netOf(everywhere), Gw: via.AsSlice()})
}

// dropCapability removes a capability from the calling thread permanently.
func dropCapability(capability uint) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[capability/32].Effective &^= 1 << (capability % 32)
	data[capability/32].Permitted &^= 1 << (capability % 32)
	data[capability/32].Inheritable &^= 1 << (capability % 32)
	return unix.Capset(&header, &data[0])
}
