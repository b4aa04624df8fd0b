package hook

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// clsactPriority is ours among the filters of a device; other programs keep
// theirs.
const clsactPriority = 50253

func (a *Attachment) attachClsact(name string) error {
	qdisc := &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: a.device.Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
		},
		QdiscType: "clsact",
	}
	if err := netlink.QdiscAdd(qdisc); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add clsact: %w", err)
	}
	priority := uint16(clsactPriority)
	if a.options.Order == First {
		priority = 1
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: a.device.Index, Parent: clsactParent(a.options.Point), Handle: clsactPriority,
			Protocol: unix.ETH_P_ALL, Priority: priority,
		},
		Fd: a.program.FD(), Name: name, DirectAction: true,
	}
	if err := netlink.FilterReplace(filter); err != nil {
		return fmt.Errorf("add filter: %w", err)
	}
	a.filter = filter
	return nil
}

func clsactParent(point Point) uint32 {
	if point == Egress {
		return netlink.HANDLE_MIN_EGRESS
	}
	return netlink.HANDLE_MIN_INGRESS
}

func (a *Attachment) filterPresent() (bool, error) {
	link := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: a.device.Index}}
	filters, err := netlink.FilterList(link, a.filter.Parent)
	if err != nil {
		return false, err
	}
	for _, f := range filters {
		if bpf, ok := f.(*netlink.BpfFilter); ok && bpf.Id == int(a.id) {
			return true, nil
		}
	}
	return false, nil
}

// removeFilter takes the filter off the device, unless another program has taken it over.
func (a *Attachment) removeFilter() error {
	present, err := a.filterPresent()
	if err != nil || !present {
		return err
	}
	return netlink.FilterDel(a.filter)
}

// Clear takes programs of that name off the device that a process left there, by tcx or by
// clsact.
func Clear(device Device, point Point, name string) error {
	attach := (&Attachment{options: Options{Point: point}}).attachType()
	left, err := leftovers(device, attach, name)
	if errors.Is(err, ebpf.ErrNotSupported) {
		err = nil // then there are only filters
	}
	for _, program := range left {
		err = errors.Join(err, program.remove(device, attach))
	}
	if err = errors.Join(err, clearFilters(device, point, name, nil)); err != nil {
		return fmt.Errorf("clear device %q: %w", device.Name, err)
	}
	return nil
}

// clearFilters removes our filters of that name but one. Unlike links, filters outlive the
// process that added them.
func clearFilters(device Device, point Point, name string, but *netlink.BpfFilter) error {
	l, err := netlink.LinkByIndex(device.Index)
	if err != nil {
		return err
	}
	filters, err := netlink.FilterList(l, clsactParent(point))
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return nil // a kernel without traffic control, or a device without clsact
	}
	if err != nil {
		return fmt.Errorf("list filters: %w", err)
	}
	for _, f := range filters {
		filter, ok := f.(*netlink.BpfFilter)
		if !ok || filter.Handle != clsactPriority || filter.Name != name || but != nil && filter.Priority == but.Priority {
			continue
		}
		if err := netlink.FilterDel(filter); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove filter: %w", err)
		}
	}
	return nil
}
