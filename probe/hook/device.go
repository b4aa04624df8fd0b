// Package hook puts a BPF program on a device's packet path and takes it off
// again: tcx where the kernel has it (6.6), clsact otherwise, and native XDP. It
// knows nothing of what the programs do.
package hook

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Errors that a user can remove.
var (
	ErrNoDevice  = errors.New("no such device")
	ErrLink      = errors.New("link type is not supported")
	ErrMTU       = errors.New("MTU is too large")
	ErrOldKernel = errors.New("kernel is too old")
	ErrNotRoot   = errors.New("not permitted")
	ErrOwned     = errors.New("another agent has it")
)

// Device is a network interface as the probes need to know it.
type Device struct {
	Name  string
	Index int
	// MTU is the largest IP packet, bytes.
	MTU int
	// LinkLength is the length of the link header in a frame, bytes: 14 on
	// Ethernet, 0 on tun, WireGuard and the like.
	LinkLength int
	// WholeTunnels says that a UDP segmentation buffer inside a UDP tunnel may leave the
	// device in one piece and reach another host so, as over veth and between virtual
	// machines. Other devices, or the kernel before them, segment it.
	WholeTunnels bool
}

// Find looks the device up in the calling thread's network namespace.
func Find(name string) (Device, error) {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return Device{}, fmt.Errorf("find device %q: %w%s", name, ErrNoDevice, others())
	}
	if err != nil {
		return Device{}, fmt.Errorf("find device %q: %w", name, err)
	}
	return describe(link)
}

// Now looks the device up again, by its index: another name does not make it another device.
func (d Device) Now() (Device, error) {
	link, err := byIndex(d.Index)
	if err != nil {
		return Device{}, fmt.Errorf("follow device %q: %w", d.Name, err)
	}
	return describe(link)
}

// byIndex looks up a device that was there before.
func byIndex(index int) (netlink.Link, error) {
	link, err := netlink.LinkByIndex(index)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		err = fmt.Errorf("%w: it was removed", ErrNoDevice)
	}
	return link, err
}

func describe(link netlink.Link) (Device, error) {
	attrs := link.Attrs()
	device := Device{Name: attrs.Name, Index: attrs.Index, MTU: attrs.MTU, WholeTunnels: wholeTunnels(attrs)}
	switch attrs.EncapType {
	case "ether", "loopback":
		device.LinkLength = 14
	case "none", "ppp", "rawip":
		device.LinkLength = 0
	default:
		return Device{}, fmt.Errorf("use device %q: %w: %s", attrs.Name, ErrLink, attrs.EncapType)
	}
	return device, nil
}

// wholeTunnels reads the offloads of a device. If they are unknown it assumes the worst.
func wholeTunnels(attrs *netlink.LinkAttrs) bool {
	if attrs.ParentDevBus == "pci" { // hardware; virtio has a bus of its own
		return false
	}
	handle, err := ethtool.NewEthtool()
	if err != nil {
		return true
	}
	defer handle.Close()
	features, err := handle.Features(attrs.Name)
	return err != nil || features["tx-udp_tnl-segmentation"] && features["tx-udp-segmentation"]
}

// others lists the existing devices, for the error about an unknown one.
func others() string {
	interfaces, err := net.Interfaces()
	if err != nil || len(interfaces) == 0 {
		return ""
	}
	text := "; there are"
	for _, i := range interfaces {
		text += " " + i.Name
	}
	return text
}

// NeedRoot says early and plainly what the kernel would say late and darkly. Who
// is not root may have the capabilities instead.
func NeedRoot() error {
	held, err := Capabilities()
	if err != nil {
		return err
	}
	if lacking := Lacking(held); len(lacking) > 0 {
		return fmt.Errorf("load BPF programs: %w to user %d without %s", ErrNotRoot, os.Geteuid(), strings.Join(lacking, ", "))
	}
	return nil
}

// Capabilities are the calling thread's effective ones, a bit for each.
func Capabilities() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return 0, fmt.Errorf("read capabilities: %w", err)
	}
	return uint64(sets[1].Effective)<<32 | uint64(sets[0].Effective), nil
}

// Lacking names the capabilities that the probes need and held has not.
// CAP_SYS_ADMIN stands for those that were once part of it.
func Lacking(held uint64) []string {
	has := func(capability int) bool { return held&(1<<capability) != 0 }
	var names []string
	for _, c := range []struct {
		name       string
		capability int
		part       bool // of CAP_SYS_ADMIN before Linux 5.8
	}{
		{"CAP_BPF", unix.CAP_BPF, true},
		{"CAP_NET_ADMIN", unix.CAP_NET_ADMIN, false},
		{"CAP_PERFMON", unix.CAP_PERFMON, true},
	} {
		if !has(c.capability) && !(c.part && has(unix.CAP_SYS_ADMIN)) {
			names = append(names, c.name)
		}
	}
	return names
}
