package lab

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
)

// namespace is the name of a host's network namespace. Lab names have no hyphen,
// so no two hosts of any two labs share one.
func namespace(lab, host string) string { return "pl-" + lab + "-" + host }

// sysctls are set in every namespace before it gets interfaces. They disable unsolicited
// packets and reverse-path filtering, which drops packets on asymmetric paths.
var sysctls = []struct{ path, value string }{
	{"net/ipv4/conf/all/rp_filter", "0"},
	{"net/ipv4/conf/default/rp_filter", "0"},
	{"net/ipv6/conf/all/accept_dad", "0"},
	{"net/ipv6/conf/default/accept_dad", "0"},
	{"net/ipv6/conf/all/accept_ra", "0"},
	{"net/ipv6/conf/default/accept_ra", "0"},
	{"net/ipv6/conf/default/router_solicitations", "0"},
	{"net/ipv6/conf/default/addr_gen_mode", "1"}, // see linkLocal
}

// createHost creates a host's namespace with lo up.
func createHost(lab, name string, host Host) error {
	ns := namespace(lab, name)
	if err := netns.Create(ns); err != nil {
		return err
	}
	return netns.Do(ns, func() error {
		forward := "0"
		if host.Forward {
			forward = "1"
		}
		settings := append(sysctls[:len(sysctls):len(sysctls)],
			struct{ path, value string }{"net/ipv4/ip_forward", forward},
			struct{ path, value string }{"net/ipv6/conf/all/forwarding", forward},
		)
		for _, s := range settings {
			if err := writeSysctl(s.path, s.value); err != nil {
				return fmt.Errorf("configure host %s: %w", name, err)
			}
		}
		if host.IOAM != 0 {
			if err := enableIOAM(host.IOAM); err != nil {
				return fmt.Errorf("configure host %s: %w", name, err)
			}
		}
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err != nil {
			return fmt.Errorf("set lo of %s up: %w", name, err)
		}
		return nil
	})
}

// writeSysctl sets a value in the namespace of the calling thread. A missing setting, as
// in a kernel without IPv6, is ignored.
func writeSysctl(path, value string) error {
	err := os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0o644)
	if pathError, ok := err.(*fs.PathError); ok && pathError.Err == unix.ENOENT {
		return nil
	}
	return err
}

// configureInterface sets the MTU and addresses of an interface and sets it up. It runs
// in the host's namespace.
func configureInterface(name string, mtu int, addresses []Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	if err := netlink.LinkSetMTU(link, mtu); err != nil {
		return fmt.Errorf("set mtu of %s to %d: %w", name, mtu, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	for _, address := range addresses {
		config := &netlink.Addr{IPNet: ipNet(address.Prefix)}
		if address.Addr().Is6() {
			config.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, config); err != nil {
			return fmt.Errorf("add address %s to %s: %w", address, name, err)
		}
	}
	return nil
}

// addRoutes installs a host's routes. It runs in the host's namespace.
func addRoutes(routes []route) error {
	for _, r := range routes {
		err := netlink.RouteAdd(&netlink.Route{Dst: ipNet(r.to), Gw: r.via.AsSlice()})
		if err != nil {
			return fmt.Errorf("add route to %s via %s: %w", r.to, r.via, err)
		}
	}
	return nil
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{
		IP:   prefix.Addr().AsSlice(),
		Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
	}
}
