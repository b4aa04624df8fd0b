package hook

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// ErrNoCgroup says that the sockets of this host are out of reach.
var ErrNoCgroup = errors.New("no cgroup v2 hierarchy")

// AttachSockets attaches a program to all sockets of the cgroup v2 hierarchy, those
// that exist included, until the link is closed or the process ends. Within a cgroup
// namespace these are the sockets of that namespace.
func AttachSockets(program *ebpf.Program) (link.Link, error) {
	root, err := openCgroup()
	if err != nil {
		return nil, fmt.Errorf("attach to sockets: %w", err)
	}
	defer root.Close()
	return attachTo(root, program)
}

func attachTo(root *os.File, program *ebpf.Program) (link.Link, error) {
	l, err := link.AttachCgroup(link.CgroupOptions{
		Path: fmt.Sprintf("/proc/self/fd/%d", root.Fd()), Attach: ebpf.AttachCGroupSockOps, Program: program,
	})
	if err != nil {
		return nil, fmt.Errorf("attach to sockets: %w", err)
	}
	return l, nil
}

// SocketPrograms are the programs that are attached where AttachSockets attaches, except programs of
// this name, each as NAME (ID), and no more than a message names.
func SocketPrograms(but string) (names []string) {
	root, err := openCgroup()
	if err != nil {
		return nil
	}
	defer root.Close()
	result, err := link.QueryPrograms(link.QueryOptions{Target: int(root.Fd()), Attach: ebpf.AttachCGroupSockOps})
	for i := 0; err == nil && i < len(result.Programs) && len(names) < namedMax; i++ {
		id := result.Programs[i].ID
		if name := nameOf(id, ""); name != "" && name != but { // without CAP_SYS_ADMIN its own are not known from others
			names = append(names, fmt.Sprintf("%s (%d)", name, id))
		}
	}
	return names
}

// HaveCgroup looks for the cgroup v2 hierarchy; without it the error is ebpf.ErrNotSupported.
func HaveCgroup() error {
	root, err := openCgroup()
	if errors.Is(err, ErrNoCgroup) {
		return fmt.Errorf("%w: %w", ebpf.ErrNotSupported, err)
	}
	if err != nil {
		return err
	}
	return root.Close()
}

// openCgroup opens the root of the hierarchy where it is mounted, and otherwise mounts
// it in no place that anybody else would see.
func openCgroup() (*os.File, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find cgroup: %w", err)
	}
	if place := cgroupMount(mounts, isRootCgroup); place != "" {
		if root, err := os.Open(place); err == nil {
			return root, nil
		}
	}
	root, err := mountCgroup()
	if err != nil {
		return nil, fmt.Errorf("%w is mounted, and mounting it failed: %w", ErrNoCgroup, err)
	}
	return root, nil
}

// cgroupMount returns where the root of the hierarchy is mounted, or else the root of the cgroup
// namespace, or nothing. A line is (proc_pid_mountinfo(5)): ID parent device root place options
// [tags] - type source options. In a namespace below the root, which a container has, the root
// of a mount that the host has lent is above it: /../..
func cgroupMount(mountinfo []byte, isRoot func(place string) bool) string {
	var own string
	lines := bufio.NewScanner(bytes.NewReader(mountinfo))
	for lines.Scan() {
		mount, kind, found := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(mount)
		if !found || len(fields) < 5 || !strings.HasPrefix(kind, "cgroup2 ") || strings.Trim(fields[3], "/.") != "" {
			continue
		}
		if isRoot(fields[4]) {
			return fields[4]
		}
		if fields[3] == "/" && own == "" {
			own = fields[4]
		}
	}
	return own
}

// isRootCgroup: all cgroups but the root count events.
func isRootCgroup(place string) bool {
	_, err := os.Stat(filepath.Join(place, "cgroup.events"))
	return errors.Is(err, fs.ErrNotExist)
}

func mountCgroup() (*os.File, error) {
	context, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open cgroup2: %w", err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return nil, fmt.Errorf("create cgroup2: %w", err)
	}
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("mount cgroup2: %w", err)
	}
	return os.NewFile(uintptr(mount), "cgroup2"), nil
}
