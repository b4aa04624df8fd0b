//go:build amd64 || arm64

package confine

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// allowed are the system calls of the Go runtime, and those on files and sockets. What is
// not here or in limited fails with EPERM: among others bpf, perf_event_open, mount, ptrace,
// unshare, setns, execve, module and keyring calls, io_uring, and all that changes users.
var allowed = append([]uint32{
	// memory and threads
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_BRK, unix.SYS_MEMBARRIER,
	unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_SET_TID_ADDRESS,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_RESTART_SYSCALL, unix.SYS_GETCPU,
	// signals of the process itself
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	// time and random numbers
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRANDOM,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE,
	// facts about the process and the host
	unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID,
	unix.SYS_UNAME, unix.SYS_SYSINFO, unix.SYS_GETRUSAGE, unix.SYS_TIMES, unix.SYS_CAPGET,
	// files
	unix.SYS_OPENAT, unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE, unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64,
	unix.SYS_LSEEK, unix.SYS_FSTAT, unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_READLINKAT, unix.SYS_GETDENTS64,
	unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_FTRUNCATE, unix.SYS_TRUNCATE,
	unix.SYS_FALLOCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC_FILE_RANGE, unix.SYS_FLOCK, unix.SYS_FCHMOD, unix.SYS_FCHMODAT,
	unix.SYS_UTIMENSAT, unix.SYS_GETCWD, unix.SYS_COPY_FILE_RANGE, unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_UMASK,
	unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_FCNTL, unix.SYS_PIPE2, unix.SYS_EVENTFD2,
	// sockets, but socket itself
	unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_CONNECT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
	unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG, unix.SYS_RECVMMSG, unix.SYS_GETSOCKOPT, unix.SYS_SHUTDOWN,
	unix.SYS_SOCKETPAIR, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_PPOLL, unix.SYS_PSELECT6,
}, allowedHere...)

// protocolMax bounds the protocols of Internet sockets: up to UDP, that is no raw protocol
// and none with a parser of its own.
const protocolMax = unix.IPPROTO_UDP

// condition is on one argument of a system call, of which it sees the lower 32 bits.
type condition struct {
	argument uint32
	mask     uint32 // of the bits that count
	test     bpf.JumpTest
	value    uint32
}

func equal(argument uint32, value uint32) condition {
	return condition{argument, ^uint32(0), bpf.JumpEqual, value}
}
func differs(argument uint32, value uint32) condition {
	return condition{argument, ^uint32(0), bpf.JumpNotEqual, value}
}

const (
	newNamespace = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP
	socketType   = 0xf
)

// limited are system calls that are allowed with certain arguments: those that fulfil all
// conditions of one of the alternatives.
func limited() map[uint32][][]condition {
	self := uint32(os.Getpid())
	internet := func(family uint32) []condition {
		return []condition{equal(0, family), {1, socketType, bpf.JumpLessOrEqual, unix.SOCK_DGRAM}, {2, ^uint32(0), bpf.JumpLessOrEqual, protocolMax}}
	}
	return map[uint32][][]condition{
		// Threads, but no processes and no namespaces.
		unix.SYS_CLONE: {{{0, newNamespace, bpf.JumpEqual, 0}, {0, unix.CLONE_THREAD, bpf.JumpNotEqual, 0}}},
		// The Go runtime interrupts its threads.
		unix.SYS_TGKILL: {{equal(0, self)}},
		// Limits of its own, not of other processes.
		unix.SYS_PRLIMIT64: {{equal(0, 0)}, {equal(0, self)}},
		// Not TIOCSTI, which types on the terminal of whoever started the agent.
		unix.SYS_IOCTL:  {{equal(1, unix.TCGETS)}, {equal(1, unix.TIOCINQ)}},
		unix.SYS_SOCKET: {{equal(0, unix.AF_UNIX)}, {equal(0, unix.AF_NETLINK), equal(2, unix.NETLINK_ROUTE)}, internet(unix.AF_INET), internet(unix.AF_INET6)},
		// No filter on its sockets, not even a classic one.
		unix.SYS_SETSOCKOPT: {{differs(1, unix.SOL_SOCKET)}, {
			differs(2, unix.SO_ATTACH_FILTER), differs(2, unix.SO_ATTACH_BPF), differs(2, unix.SO_ATTACH_REUSEPORT_CBPF), differs(2, unix.SO_ATTACH_REUSEPORT_EBPF),
		}},
	}
}

const (
	allow = unix.SECCOMP_RET_ALLOW
	deny  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	// absent is the answer for clone3, whose arguments are in memory: libraries use clone.
	absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// Offsets in struct seccomp_data; the lower halves of arguments come first.
const (
	callOffset, architectureOffset, argumentsOffset = 0, 4, 16
	word                                            = 4
)

// program is the filter. The kernel caches what does not depend on arguments.
func program() []bpf.Instruction {
	load := func(offset uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offset, Size: word} }
	is := func(value uint32, verdict uint32) []bpf.Instruction {
		return []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: value, SkipTrue: 1}, bpf.RetConstant{Val: verdict}}
	}
	all := []bpf.Instruction{
		load(architectureOffset), bpf.JumpIf{Cond: bpf.JumpEqual, Val: architecture, SkipTrue: 1}, bpf.RetConstant{Val: deny},
		load(callOffset),
	}
	for _, call := range allowed {
		all = append(all, is(call, allow)...)
	}
	all = append(all, is(unix.SYS_CLONE3, absent)...)
	rules := limited()
	for _, call := range slices.Sorted(maps.Keys(rules)) {
		var body []bpf.Instruction
		for _, alternative := range rules[call] {
			body = append(body, fulfils(alternative)...)
		}
		body = append(body, bpf.RetConstant{Val: deny})
		all = append(all, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: uint8(len(body))})
		all = append(all, body...)
	}
	return append(all, bpf.RetConstant{Val: deny})
}

// fulfils allows the call if all conditions hold, and continues otherwise.
func fulfils(alternative []condition) []bpf.Instruction {
	const each = 3 // instructions
	var body []bpf.Instruction
	for i, c := range alternative {
		rest := uint8(each*(len(alternative)-1-i) + 1) // with the verdict
		body = append(body,
			bpf.LoadAbsolute{Off: argumentsOffset + 8*c.argument, Size: word},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.mask},
			bpf.JumpIf{Cond: c.test, Val: c.value, SkipFalse: rest})
	}
	return append(body, bpf.RetConstant{Val: allow})
}

// filterCalls installs the filter in all threads.
func filterCalls() error {
	raw, err := bpf.Assemble(program())
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	p := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	thread, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(filter)
	if failed != 0 {
		return failed
	}
	if thread != 0 {
		return fmt.Errorf("thread %d has another filter", thread)
	}
	return nil
}
