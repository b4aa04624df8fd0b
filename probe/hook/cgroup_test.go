package hook

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/test/namespace"
)

func TestCgroupMount(t *testing.T) {
	const (
		first  = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
		old    = "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime shared:9 - cgroup cgroup rw,name=systemd\n"
		part   = "42 31 0:38 /user.slice /mnt/part rw,relatime - cgroup2 cgroup2 rw\n"
		hybrid = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:4 master:2 - cgroup2 cgroup2 rw\n"
		own    = "43 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
		lent   = "44 31 0:38 /../.. /lent ro - cgroup2 cgroup2 rw\n"
		second = "50 31 0:38 / /second rw - cgroup2 none rw\n"
	)
	for _, row := range []struct{ name, mounts, want string }{
		{"hybrid", first + old + hybrid, "/sys/fs/cgroup/unified"},
		{"the first of several", old + hybrid + second, "/sys/fs/cgroup/unified"},
		{"part of the hierarchy", first + part, ""},
		{"behind a part", part + second, "/second"},
		{"version 1 only", first + old, ""},
		{"truncated", "41 31 0:38 - cgroup2", ""},
		{"container with a namespace of its own", own, "/sys/fs/cgroup"},
		{"container with the host's root", own + lent, "/lent"},
		{"none", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := cgroupMount([]byte(row.mounts), func(place string) bool { return place != "/sys/fs/cgroup" }); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// A private mount reaches the same sockets as one that everybody sees.
func TestAttachSockets(t *testing.T) {
	namespace.NeedRoot(t)
	root, err := mountCgroup()
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SockOps, AttachType: ebpf.AttachCGroupSockOps, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	attached, err := AttachSockets(program)
	if err != nil {
		t.Fatal(err)
	}
	defer attached.Close()
	private, err := attachTo(root, program)
	if err != nil {
		t.Fatal(err)
	}
	defer private.Close()
	public, err := openCgroup()
	if err != nil {
		t.Fatal(err)
	}
	defer public.Close()
	var one, other unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &one); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fstat(int(public.Fd()), &other); err != nil {
		t.Fatal(err)
	}
	if one.Dev != other.Dev || one.Ino != other.Ino {
		t.Errorf("root %d of device %d, privately %d of device %d", other.Ino, other.Dev, one.Ino, one.Dev)
	}
}
