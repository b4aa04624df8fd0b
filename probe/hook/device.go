// Package hook puts a BPF program on a device's packet path and takes it off
// again: tcx where the kernel has it (6.6), clsact otherwise, and native XDP. It
// knows nothing of what the programs do.
package hook

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
)

// Errors that a user can remove.
var (
	ErrNoDevice  = errors.New("no such device")
	ErrLink      = errors.New("link type is not supported")
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
	attrs := link.Attrs()
	device := Device{Name: name, Index: attrs.Index, MTU: attrs.MTU}
	switch attrs.EncapType {
	case "ether", "loopback":
		device.LinkLength = 14
	case "none", "ppp", "rawip":
		device.LinkLength = 0
	default:
		return Device{}, fmt.Errorf("use device %q: %w: %s", name, ErrLink, attrs.EncapType)
	}
	return device, nil
}

// others lists what there is, for the error of who mistyped.
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

// NeedRoot says early and plainly what the kernel would say late and darkly.
func NeedRoot() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("load BPF programs: %w to user %d", ErrNotRoot, os.Geteuid())
	}
	return nil
}
