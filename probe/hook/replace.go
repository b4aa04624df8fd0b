package hook

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
)

// Replace puts another program in the place of the attached one: no packet passes without one,
// and none meets both. It is for programs of TC that end with the process.
func (a *Attachment) Replace(program *ebpf.Program) error {
	if a.program == program {
		return nil
	}
	info, err := program.Info()
	if err != nil {
		return fmt.Errorf("inspect program: %w", err)
	}
	switch {
	case a.link != nil:
		err = a.link.Update(program)
	case a.filter != nil:
		filter := *a.filter
		filter.Fd = program.FD()
		if err = netlink.FilterReplace(&filter); err == nil {
			a.filter = &filter
		}
	default:
		err = fmt.Errorf("%w: it stays on the device", ebpf.ErrNotSupported)
	}
	if err != nil {
		return fmt.Errorf("replace program on device %q by %s: %w", a.device.Name, info.Name, err)
	}
	a.program = program
	a.id, _ = info.ID()
	return nil
}
