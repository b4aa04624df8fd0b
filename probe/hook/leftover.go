package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// leftover is a program that a process left on a device. Reading the name of a program, and opening it,
// takes CAP_SYS_ADMIN: without it program is nil, and the program is known from the note of its process.
type leftover struct {
	id      ebpf.ProgramID
	program *ebpf.Program
}

// leftovers are programs of this name that no link holds, left by a process
// that ended without taking them off.
func leftovers(device Device, attach ebpf.AttachType, name string) ([]leftover, error) {
	result, err := link.QueryPrograms(link.QueryOptions{Target: device.Index, Attach: attach})
	if err != nil {
		return nil, withoutTCX(err)
	}
	var left []leftover
	for _, p := range result.Programs {
		if linkID, ok := p.LinkID(); ok && linkID != 0 {
			continue
		}
		program, err := ebpf.NewProgramFromID(p.ID)
		if errors.Is(err, fs.ErrPermission) && noted(name, device, p.ID) {
			left = append(left, leftover{id: p.ID})
		}
		if err != nil {
			continue // it is somebody else's, or gone in the meantime
		}
		if info, err := program.Info(); err == nil && info.Name == name {
			left = append(left, leftover{p.ID, program})
			continue
		}
		program.Close()
	}
	return left, nil
}

// remove takes the program off the device.
func (l leftover) remove(device Device, attach ebpf.AttachType) error {
	if l.program == nil {
		return detachByID(device, attach, l.id)
	}
	return errors.Join(detachTCX(device, attach, l.program), l.program.Close())
}

// detachByID takes a program off a device that this process cannot open: the one beside it is
// named to the kernel, and the revision of the hook, so that no other is met.
func detachByID(device Device, attach ebpf.AttachType, id ebpf.ProgramID) error {
	const command, before, after, byID = 9, 1 << 3, 1 << 4, 1 << 5 // BPF_PROG_DETACH, BPF_F_BEFORE, BPF_F_AFTER, BPF_F_ID
	result, err := link.QueryPrograms(link.QueryOptions{Target: device.Index, Attach: attach})
	if err != nil {
		return err
	}
	attributes := struct {
		target, program, attach, flags, _, relative uint32
		revision                                    uint64
	}{target: uint32(device.Index), attach: uint32(attach), flags: before, revision: result.Revision}
	at := slices.IndexFunc(result.Programs, func(p link.AttachedProgram) bool { return p.ID == id })
	if at < 0 {
		return nil
	}
	if at > 0 { // else the first one is meant, which is before nothing
		attributes.flags, attributes.relative = after|byID, uint32(result.Programs[at-1].ID)
	}
	if _, _, failed := unix.Syscall(unix.SYS_BPF, command, uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes)); failed != 0 {
		return fmt.Errorf("detach program %d: %w", id, failed)
	}
	return nil
}

// notePath is where a process writes which program it leaves on the device if it is killed, for leftovers. Where that
// is not possible it stays there, unless the next process has CAP_SYS_ADMIN.
func notePath(name string, device Device) string {
	path, _ := place(name, device)
	return path + ".program"
}

// noted reports whether the last process that attached such a program noted this one.
func noted(name string, device Device, id ebpf.ProgramID) bool {
	text, err := os.ReadFile(notePath(name, device))
	return err == nil && string(text) == fmt.Sprint(id)
}
