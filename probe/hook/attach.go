package hook

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Point is a place on a device's packet path.
type Point int

const (
	// Egress is where packets leave, after the stack and before the queue.
	Egress Point = iota
	// Ingress is where packets enter, as socket buffers.
	Ingress
	// XDP is where frames enter, before there is a socket buffer.
	XDP
)

// Order is the place among the programs of other people on the same point.
type Order int

const (
	// First sees the packet before everyone else.
	First Order = iota
	// Last sees the packet after everyone else.
	Last
)

// Options say how to attach.
type Options struct {
	Point Point
	Order Order
	// Stay keeps the program on the device when the process ends, until Close
	// or the device's end. Without it the kernel takes the program off.
	Stay bool
	// Clsact uses the older hook although the kernel has tcx.
	Clsact bool
}

// Attachment is one program on one device.
type Attachment struct {
	device  Device
	options Options
	program *ebpf.Program
	link    link.Link          // tcx, ends with the process
	filter  *netlink.BpfFilter // clsact
	detach  func() error       // tcx and XDP that stay
	id      ebpf.ProgramID
	sight   sight
}

// Attach puts the program on the device. A program of the same name that an
// earlier process left there is taken off afterwards, so that no packet passes
// without one.
func Attach(program *ebpf.Program, device Device, options Options) (*Attachment, error) {
	info, err := program.Info()
	if err != nil {
		return nil, fmt.Errorf("inspect program: %w", err)
	}
	id, _ := info.ID()
	a := &Attachment{device: device, options: options, program: program, id: id}
	switch {
	case options.Point == XDP:
		err = a.attachXDP(info.Name)
	case options.Clsact:
		err = a.attachClsact(info.Name)
	default:
		err = a.attachTCX(info.Name)
		if errors.Is(err, ebpf.ErrNotSupported) {
			err = a.attachClsact(info.Name)
		}
	}
	if err == nil && options.Point != XDP {
		err = clearFilters(device, options.Point, info.Name, a.filter)
	}
	if err != nil {
		return nil, fmt.Errorf("attach %s to device %q: %w", info.Name, device.Name, errors.Join(err, a.Close()))
	}
	if options.Point != XDP {
		a.look()
	}
	return a, nil
}

func (a *Attachment) attachType() ebpf.AttachType {
	if a.options.Point == Egress {
		return ebpf.AttachTCXEgress
	}
	return ebpf.AttachTCXIngress
}

func (a *Attachment) anchor() link.Anchor {
	if a.options.Order == Last {
		return link.Tail()
	}
	return link.Head()
}

func (a *Attachment) attachTCX(name string) error {
	left, err := leftovers(a.device, a.attachType(), name)
	if err != nil {
		return err
	}
	err = a.attachProgram(name)
	if n := len(left); n > 0 && errors.Is(err, unix.ERANGE) { // they have filled the hook
		err, left = left[n-1].remove(a.device, a.attachType()), left[:n-1]
		if err == nil {
			err = a.attachProgram(name)
		}
	}
	if err != nil {
		return explainFull(a.device, a.attachType(), err)
	}
	for _, program := range left {
		err = errors.Join(err, program.remove(a.device, a.attachType()))
	}
	if a.options.Stay {
		_ = os.WriteFile(notePath(name, a.device), []byte(fmt.Sprint(a.id)), 0o600)
	}
	return err
}

func (a *Attachment) attachProgram(name string) (err error) {
	if !a.options.Stay {
		a.link, err = link.AttachTCX(link.TCXOptions{
			Interface: a.device.Index, Program: a.program,
			Attach: a.attachType(), Anchor: a.anchor(),
		})
		return err
	}
	err = link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: a.device.Index, Program: a.program,
		Attach: a.attachType(), Anchor: a.anchor(),
	})
	a.detach = func() error {
		if noted(name, a.device, a.id) {
			os.Remove(notePath(name, a.device))
		}
		return detachTCX(a.device, a.attachType(), a.program)
	}
	return err
}

func detachTCX(device Device, attach ebpf.AttachType, program *ebpf.Program) error {
	return link.RawDetachProgram(link.RawDetachProgramOptions{
		Target: device.Index, Program: program, Attach: attach,
	})
}

// HaveTCX asks the kernel for tcx; without it the error is ebpf.ErrNotSupported.
func HaveTCX() error {
	const loopback = 1 // in every namespace
	_, err := link.QueryPrograms(link.QueryOptions{Target: loopback, Attach: ebpf.AttachTCXIngress})
	if err == nil || errors.Is(err, unix.ENODEV) {
		return nil
	}
	// Without permission the kernel answers as if it had no tcx.
	if held, e := Capabilities(); e == nil && slices.Contains(Lacking(held), "CAP_NET_ADMIN") {
		return fmt.Errorf("query tcx: %w", unix.EPERM)
	}
	return withoutTCX(err)
}

// withoutTCX reads the error of a query: a kernel before tcx does not know the
// attach type, and calls it invalid.
func withoutTCX(err error) error {
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w: %w", ebpf.ErrNotSupported, err)
	}
	return err
}

// attachXDP takes the place only if it is free, or if a process of ours left it.
func (a *Attachment) attachXDP(name string) error {
	l, err := netlink.LinkByIndex(a.device.Index)
	if err != nil {
		return err
	}
	flags := unix.XDP_FLAGS_DRV_MODE
	if xdp := l.Attrs().Xdp; xdp == nil || !xdp.Attached || nameOf(ebpf.ProgramID(xdp.ProgId), "") != name {
		flags |= unix.XDP_FLAGS_UPDATE_IF_NOEXIST
	}
	err = netlink.LinkSetXdpFdWithFlags(l, a.program.FD(), flags)
	if err != nil {
		return fmt.Errorf("native XDP: %w", xdpFault(err, l.Type(), l.Attrs().MTU))
	}
	a.detach = func() error {
		if present, err := a.Present(); err != nil || !present {
			return err // another program may have taken the place
		}
		return netlink.LinkSetXdpFdWithFlags(l, -1, unix.XDP_FLAGS_DRV_MODE)
	}
	return nil
}

// xdpMTUMax is the largest MTU, bytes, with which veth and virtio_net have room for a packet in a page, beside the headroom,
// struct skb_shared_info and the Ethernet header. Other drivers take less.
func xdpMTUMax() int { return os.Getpagesize() - 256 - 320 - 14 }

// xdpFault says why a device of this type and MTU takes no program.
func xdpFault(err error, kind string, mtu int) error {
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: an XDP program is there already", ErrOwned)
	case errors.Is(err, unix.ERANGE) && kind == "veth": // it asks for the room that the other end's packets need
		return fmt.Errorf("%w: the other end of this veth (this end has %d bytes) may have at most %d bytes", ErrMTU, mtu, xdpMTUMax())
	case errors.Is(err, unix.ERANGE), errors.Is(err, unix.EINVAL) && mtu > xdpMTUMax():
		return fmt.Errorf("%w: the device has %d bytes, its driver takes at most %d or less (%w)", ErrMTU, mtu, xdpMTUMax(), err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: its driver has none, or none for an MTU of %d bytes", ErrLink, mtu)
	}
	return err
}

// Present reports whether the program is still on the device: someone else may
// have taken it off.
func (a *Attachment) Present() (bool, error) {
	if a.options.Point == XDP {
		l, err := netlink.LinkByIndex(a.device.Index)
		if err != nil {
			return false, err
		}
		return l.Attrs().Xdp != nil && l.Attrs().Xdp.ProgId == uint32(a.id), nil
	}
	if a.filter != nil {
		return a.filterPresent()
	}
	result, err := link.QueryPrograms(link.QueryOptions{Target: a.device.Index, Attach: a.attachType()})
	if err != nil {
		return false, err
	}
	for _, p := range result.Programs {
		if p.ID == a.id {
			return true, nil
		}
	}
	return false, nil
}

// Close takes the program off the device. A device that is gone took it along.
func (a *Attachment) Close() error {
	var err error
	switch {
	case a.link != nil:
		err = a.link.Close()
	case a.filter != nil:
		err = a.removeFilter()
	case a.detach != nil:
		err = a.detach()
	}
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("detach from device %q: %w", a.device.Name, err)
	}
	return nil
}
