package send

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/send/frame"
)

// ErrUnreachable marks a destination to which the interface has no way.
var ErrUnreachable = errors.New("destination unreachable")

// resolveWait is how long a neighbour may take to answer; the kernel is asked to solicit
// it each resolveAgain.
const (
	resolveWait  = 3 * time.Second
	resolveAgain = 200 * time.Millisecond
)

// Address fills in what the link to the destination decides: the addresses of both
// link-layer ends and the source address, unless they are given. It runs in the network
// namespace of the caller.
func Address(h *frame.Header, device string) error {
	dev, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", device, err)
	}
	routes, err := netlink.RouteGetWithOptions(h.Destination.AsSlice(), &netlink.RouteGetOptions{Oif: device, SrcAddr: slice(h.Source)})
	if err != nil || len(routes) == 0 {
		return fmt.Errorf("%w: route to %v by %s: %w", ErrUnreachable, h.Destination, device, err)
	}
	if !h.Source.IsValid() {
		source, ok := netip.AddrFromSlice(routes[0].Src)
		if !ok {
			return fmt.Errorf("%w: %s has no address to reach %v from", ErrUnreachable, device, h.Destination)
		}
		h.Source = source.Unmap()
	}
	if h.SourceMAC == nil {
		h.SourceMAC = dev.Attrs().HardwareAddr
	}
	if h.DestinationMAC != nil || len(h.SourceMAC) != 6 || dev.Attrs().Flags&net.FlagLoopback != 0 {
		return nil // an interface without link-layer addresses, such as a tunnel
	}
	hop := routes[0].Gw
	if hop == nil {
		hop = h.Destination.AsSlice()
	}
	h.DestinationMAC, err = neighbour(dev.Attrs().Index, hop)
	return err
}

func slice(a netip.Addr) net.IP {
	if !a.IsValid() {
		return nil
	}
	return a.AsSlice()
}

// neighbour is the link-layer address of a neighbour. The kernel is asked to resolve one
// that it does not know, as `ip neighbour ... use` does.
func neighbour(device int, ip net.IP) (net.HardwareAddr, error) {
	family := netlink.FAMILY_V6
	if ip.To4() != nil {
		family = netlink.FAMILY_V4
	}
	var asked time.Time
	for deadline := time.Now().Add(resolveWait); ; time.Sleep(5 * time.Millisecond) {
		list, err := netlink.NeighList(device, family)
		if err != nil {
			return nil, fmt.Errorf("list neighbours: %w", err)
		}
		for _, n := range list {
			const known = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT
			if n.IP.Equal(ip) && n.State&known != 0 && len(n.HardwareAddr) == 6 {
				return n.HardwareAddr, nil
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w: %v is on the link of the interface but does not answer", ErrUnreachable, ip)
		}
		if time.Since(asked) < resolveAgain {
			continue
		}
		asked = time.Now()
		ask := &netlink.Neigh{LinkIndex: device, Family: family, IP: ip, State: netlink.NUD_NONE, Flags: unix.NTF_USE}
		if err := netlink.NeighSet(ask); err != nil {
			return nil, fmt.Errorf("resolve neighbour %v: %w", ip, err)
		}
	}
}
