package confine

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Capabilities that the privileged process keeps: those to load and attach programs, to open
// raw sockets, to send at real-time priority, and to end the other process. If it has them,
// those to identify programs that are attached already, to name functions of the kernel, and
// to exceed limits on memory for packets.
var kept = []uint{
	unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON, unix.CAP_NET_RAW, unix.CAP_SYS_NICE, unix.CAP_KILL,
	unix.CAP_SYS_ADMIN, unix.CAP_SYSLOG, unix.CAP_SYS_RESOURCE, unix.CAP_IPC_LOCK,
}

// KeepNeeded reduces the capabilities of the calling process, in all its threads, to those
// that measuring needs. It does nothing in a process with cgo, which cannot do so: those are
// builds for tests.
func KeepNeeded() error {
	header, data, err := capabilities()
	if err != nil {
		return err
	}
	var mask [2]uint32
	for _, c := range kept {
		mask[c/32] |= 1 << (c % 32)
	}
	for i := range data {
		data[i].Permitted &= mask[i]
		data[i].Effective, data[i].Inheritable = data[i].Permitted, data[i].Inheritable&data[i].Permitted
	}
	_, _, failed := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if failed != 0 && failed != syscall.ENOTSUP {
		return fmt.Errorf("drop capabilities: %w", failed)
	}
	return nil
}

// ErrCapability marks a process that lacks capabilities.
var ErrCapability = errors.New("missing capability")

// checkUserChange names the capabilities that the calling thread lacks to start a process as
// another user, and to end it.
func checkUserChange() error {
	held, _, _ := capabilitiesOf()
	var lacking []string
	for _, c := range []struct {
		name   string
		number uint
	}{{"CAP_SETUID", unix.CAP_SETUID}, {"CAP_SETGID", unix.CAP_SETGID}, {"CAP_KILL", unix.CAP_KILL}} {
		if held&(1<<c.number) == 0 {
			lacking = append(lacking, c.name)
		}
	}
	if len(lacking) > 0 {
		return fmt.Errorf("%w: %s", ErrCapability, strings.Join(lacking, ", "))
	}
	return nil
}

func capabilities() (*unix.CapUserHeader, *[2]unix.CapUserData, error) {
	header, data := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &[2]unix.CapUserData{}
	if err := unix.Capget(header, &data[0]); err != nil {
		return nil, nil, fmt.Errorf("read capabilities: %w", err)
	}
	return header, data, nil
}

// dropAll drops the capabilities of the calling thread.
func dropAll() error {
	header, data, err := capabilities()
	if err != nil {
		return err
	}
	*data = [2]unix.CapUserData{}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	// As root a new process would get all of the bounding set back.
	const noRoot, locked = 1 << 0, 1 << 1
	if held, _, _ := capabilitiesOf(); held&(1<<unix.CAP_SETPCAP) != 0 {
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot|locked, 0, 0, 0); err != nil {
			return fmt.Errorf("give up the privileges of root: %w", err)
		}
	}
	if err := unix.Capset(header, &data[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// dropBounding empties the bounding set of the calling thread, if it may: programs that it
// starts cannot gain a capability again.
func dropBounding() error {
	for c := uintptr(0); c <= 63; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
			return nil // there are no more; no_new_privs has the same effect
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	return nil
}

// capabilitiesOf returns the capabilities of the calling thread: effective, permitted, and
// whether no_new_privs is set.
func capabilitiesOf() (effective, permitted uint64, restricted bool) {
	_, data, err := capabilities()
	if err != nil {
		return ^uint64(0), ^uint64(0), false
	}
	set, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective), uint64(data[1].Permitted)<<32 | uint64(data[0].Permitted), set == 1
}

// checkUnprivileged makes sure that Start has had its effect.
func checkUnprivileged() error {
	effective, permitted, restricted := capabilitiesOf()
	var faults []string
	if effective|permitted != 0 {
		faults = append(faults, fmt.Sprintf("capabilities %#x", effective|permitted))
	}
	if !restricted {
		faults = append(faults, "no_new_privs is not set")
	}
	if len(faults) > 0 {
		return fmt.Errorf("run as user %d: %s: this part of the agent is started by pillion-agent run", os.Geteuid(), strings.Join(faults, ", "))
	}
	return nil
}
