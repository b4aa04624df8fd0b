package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	vishnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
)

// tapQueue is the number of frames that can wait for a busy emulator.
const tapQueue = 10000

// ErrNoTun is returned if the kernel has no tap devices.
var ErrNoTun = errors.New("no tap devices")

// createVeth connects two hosts by a veth pair, which is created inside the namespaces
// so that a crash leaves nothing outside them.
func createVeth(lab string, l *Link) error {
	var ends [2]vishnetns.NsHandle
	for i, host := range l.Ends {
		handle, err := vishnetns.GetFromPath(netns.Path(namespace(lab, host)))
		if err != nil {
			return fmt.Errorf("create link %s: open namespace of %s: %w", l.Name, host, err)
		}
		defer handle.Close()
		ends[i] = handle
	}
	return netns.Do(namespace(lab, l.Ends[0]), func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name, attributes.MTU = l.Interfaces[0], l.MTU
		veth := &netlink.Veth{
			LinkAttrs: attributes, PeerName: l.Interfaces[1],
			PeerNamespace: netlink.NsFd(ends[1]), PeerMTU: uint32(l.MTU),
		}
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("create link %s: add veth %s: %w", l.Name, l.Interfaces[0], err)
		}
		return nil
	})
}

// createTap creates a tap in a host's namespace. It exists as long as the file is open.
func createTap(lab, host, name string) (*os.File, error) {
	var file *os.File
	err := netns.Do(namespace(lab, host), func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				err = fmt.Errorf("%w: %w", ErrNoTun, err)
			}
			return fmt.Errorf("open /dev/net/tun: %w", err)
		}
		file = os.NewFile(uintptr(fd), "/dev/net/tun")
		request, err := unix.NewIfreq(name)
		if err != nil {
			return fmt.Errorf("name tap %s: %w", name, err)
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			return fmt.Errorf("add tap %s: %w", name, err)
		}
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find tap %s: %w", name, err)
		}
		if err := netlink.LinkSetTxQLen(link, tapQueue); err != nil {
			return fmt.Errorf("set queue of tap %s: %w", name, err)
		}
		return nil
	})
	if err != nil && file != nil {
		file.Close()
	}
	return file, err
}

// configureLink sets both ends of a link up with addresses and, so that a lab's frames
// are reproducible, fixed hardware addresses.
func configureLink(lab string, number int, l *Link, static bool) error {
	for end, host := range l.Ends {
		name, peer := l.Interfaces[end], l.Ends[1-end]
		err := netns.Do(namespace(lab, host), func() error {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return fmt.Errorf("find interface %s: %w", name, err)
			}
			if err := netlink.LinkSetHardwareAddr(link, hardware(number, end+1)); err != nil {
				return fmt.Errorf("set hardware address of %s: %w", name, err)
			}
			addresses := append([]Prefix{linkLocal(number, end+1)}, l.Addresses[host]...)
			if err := configureInterface(name, l.MTU, addresses); err != nil || !static {
				return err
			}
			known := append([]Prefix{linkLocal(number, 2-end)}, l.Addresses[peer]...)
			return addNeighbours(link, hardware(number, 2-end), known)
		})
		if err != nil {
			return fmt.Errorf("configure link %s at %s: %w", l.Name, host, err)
		}
	}
	return nil
}

// hardware is the Ethernet address of one end, 1 or 2, of the n-th link: locally
// administered (02), then PL (50:4c).
func hardware(n, end int) net.HardwareAddr {
	return net.HardwareAddr{2, 0x50, 0x4c, byte(n >> 8), byte(n), byte(end)}
}

// addNeighbours adds permanent neighbour entries for the other end of a link.
func addNeighbours(link netlink.Link, at net.HardwareAddr, addresses []Prefix) error {
	for _, address := range addresses {
		err := netlink.NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT,
			IP: address.Addr().AsSlice(), HardwareAddr: at,
		})
		if err != nil {
			return fmt.Errorf("add neighbour %s: %w", address.Addr(), err)
		}
	}
	return nil
}

// linkLocal is the link-local address of one end, 1 or 2, of the n-th link. A
// router cannot solicit neighbours without one (RFC 4861), and one that the kernel
// generates would take time and differ between runs.
func linkLocal(n, end int) Prefix {
	return Prefix{netip.MustParsePrefix(fmt.Sprintf("fe80::%x:%d/64", n, end))}
}
