package lab_test

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// attach attaches a TC program to a device of a host until the test ends, or the link is
// closed: behind the others, or at a place among them.
func (b *bed) attach(host, device string, at ebpf.AttachType, place link.Anchor, name string, program asm.Instructions) (attached link.Link) {
	b.t.Helper()
	loaded, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SchedCLS, License: "GPL", Instructions: program})
	if err != nil {
		b.t.Fatal(err)
	}
	defer loaded.Close()
	b.do(host, func() error {
		index, err := indexOf(device)
		if err != nil {
			return err
		}
		attached, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: loaded, Attach: at, Anchor: place})
		if err == nil {
			b.t.Cleanup(func() { attached.Close() })
		}
		return err
	})
	return attached
}
