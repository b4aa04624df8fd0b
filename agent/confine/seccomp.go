//go:build amd64 || arm64

package confine

import (
	"os"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/seccomp"
)

// allowed are the system calls on files and sockets, beside the basic ones, in the forms that Go uses. What is not here
// or in limited fails with EPERM: among others bpf, perf_event_open, mount, ptrace, unshare, setns, execve, module and
// keyring calls, io_uring, and all that changes users.
var allowed = slices.Concat(seccomp.Basic, []uint32{
	unix.SYS_SET_TID_ADDRESS, unix.SYS_TIMES, unix.SYS_CAPGET,
	// files
	unix.SYS_OPENAT, unix.SYS_CLOSE_RANGE, unix.SYS_READLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_TRUNCATE, unix.SYS_SYNC_FILE_RANGE,
	unix.SYS_FLOCK, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_UTIMENSAT, unix.SYS_COPY_FILE_RANGE, unix.SYS_SENDFILE, unix.SYS_SPLICE,
	unix.SYS_UMASK, unix.SYS_DUP3, unix.SYS_FADVISE64,
	// sockets, but socket itself
	unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_CONNECT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
	unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG, unix.SYS_RECVMMSG, unix.SYS_GETSOCKOPT, unix.SYS_SHUTDOWN,
	unix.SYS_SOCKETPAIR, unix.SYS_PSELECT6,
})

const (
	socketType = 0xf
	// protocolMax bounds the protocols of Internet sockets: up to UDP, that is no raw protocol
	// and none with a parser of its own.
	protocolMax = unix.IPPROTO_UDP
)

// limited are system calls that are allowed with certain arguments.
func limited() map[uint32][][]seccomp.Condition {
	internet := func(family uint32) []seccomp.Condition {
		return []seccomp.Condition{
			seccomp.Equal(0, family), seccomp.Masked(1, socketType, bpf.JumpLessOrEqual, unix.SOCK_DGRAM), seccomp.Masked(2, ^uint32(0), bpf.JumpLessOrEqual, protocolMax),
		}
	}
	return map[uint32][][]seccomp.Condition{
		// Limits of its own, not of other processes.
		unix.SYS_PRLIMIT64: {{seccomp.Equal(0, 0)}, {seccomp.Equal(0, uint32(os.Getpid()))}},
		// Not TIOCSTI, which types on the terminal of whoever started the agent.
		unix.SYS_IOCTL: {{seccomp.Equal(1, unix.TCGETS)}, {seccomp.Equal(1, unix.TIOCINQ)}},
		unix.SYS_SOCKET: {
			{seccomp.Equal(0, unix.AF_UNIX)}, {seccomp.Equal(0, unix.AF_NETLINK), seccomp.Equal(2, unix.NETLINK_ROUTE)},
			internet(unix.AF_INET), internet(unix.AF_INET6),
		},
		// No filter on its sockets, not even a classic one.
		unix.SYS_SETSOCKOPT: {{seccomp.Differs(1, unix.SOL_SOCKET)}, {
			seccomp.Differs(2, unix.SO_ATTACH_FILTER), seccomp.Differs(2, unix.SO_ATTACH_BPF),
			seccomp.Differs(2, unix.SO_ATTACH_REUSEPORT_CBPF), seccomp.Differs(2, unix.SO_ATTACH_REUSEPORT_EBPF),
		}},
	}
}

// filterCalls installs the filter in all threads.
func filterCalls() error { return seccomp.Calls{Allowed: allowed, Limited: limited()}.Install() }
