//go:build amd64 || arm64

package seccomp

import (
	"encoding/binary"
	"os"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// verdict runs a filter on a system call, as the kernel does.
func verdict(t *testing.T, c Calls, architecture, call uint32, arguments ...uint64) uint32 {
	t.Helper()
	machine, err := bpf.NewVM(c.program())
	if err != nil {
		t.Fatal(err)
	}
	// The machine reads in network byte order, the kernel in its own.
	data := binary.BigEndian.AppendUint32(nil, call)
	data = binary.BigEndian.AppendUint32(data, architecture)
	data = append(data, make([]byte, 8)...)
	for _, a := range append(arguments, make([]uint64, 6-len(arguments))...) {
		data = binary.BigEndian.AppendUint32(data, uint32(a))
		data = binary.BigEndian.AppendUint32(data, uint32(a>>32))
	}
	got, err := machine.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

func TestFilter(t *testing.T) {
	c := Calls{
		Allowed: Basic,
		Limited: map[uint32][][]Condition{
			unix.SYS_SOCKET: {
				{Equal(0, unix.AF_UNIX)},
				{Equal(0, unix.AF_INET), Masked(1, 0xf, bpf.JumpLessOrEqual, unix.SOCK_DGRAM), Masked(2, ^uint32(0), bpf.JumpLessOrEqual, unix.IPPROTO_UDP)},
			},
			unix.SYS_SETSOCKOPT: {{Differs(1, unix.SOL_SOCKET)}},
			unix.SYS_PRLIMIT64:  {Null(2)},
		},
		Errors: map[uint32]unix.Errno{unix.SYS_IOCTL: unix.ENOTTY},
	}
	self := uint64(os.Getpid())
	const allowed, above = uint32(unix.SECCOMP_RET_ALLOW), uint64(1) << 32
	denied := fail(unix.EPERM)
	for _, test := range []struct {
		name      string
		call      uint32
		arguments []uint64
		want      uint32
	}{
		{"allowed", unix.SYS_READ, nil, allowed},
		{"not listed", unix.SYS_BPF, nil, denied},
		{"another error", unix.SYS_IOCTL, nil, fail(unix.ENOTTY)},
		{"clone3", unix.SYS_CLONE3, nil, fail(unix.ENOSYS)},
		{"thread", unix.SYS_CLONE, []uint64{unix.CLONE_THREAD | unix.CLONE_VM}, allowed},
		{"process", unix.SYS_CLONE, []uint64{unix.CLONE_VM}, denied},
		{"thread in a namespace", unix.SYS_CLONE, []uint64{unix.CLONE_THREAD | unix.CLONE_NEWUSER}, denied},
		{"signal to itself", unix.SYS_TGKILL, []uint64{self}, allowed},
		{"signal to another", unix.SYS_TGKILL, []uint64{self + 1}, denied},
		{"first alternative", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_RAW}, allowed},
		{"second alternative", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP}, allowed},
		{"raw socket", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_RAW}, denied},
		{"large protocol", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_SCTP}, denied},
		{"no alternative", unix.SYS_SOCKET, []uint64{unix.AF_PACKET}, denied},
		{"level", unix.SYS_SETSOCKOPT, []uint64{3, unix.IPPROTO_TCP}, allowed},
		{"level with a bit above", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET | above}, denied},
		{"no pointer", unix.SYS_PRLIMIT64, []uint64{0, 0, 0, 7}, allowed},
		{"pointer", unix.SYS_PRLIMIT64, []uint64{0, 0, 0xc000}, denied},
		{"pointer whose lower half is 0", unix.SYS_PRLIMIT64, []uint64{0, 0, above}, denied},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := verdict(t, c, architecture, test.call, test.arguments...); got != test.want {
				t.Errorf("got %#x, want %#x", got, test.want)
			}
		})
	}
	if got := verdict(t, c, unix.AUDIT_ARCH_I386, unix.SYS_READ); got != denied {
		t.Errorf("call of another architecture: got %#x, want %#x", got, denied)
	}
}
