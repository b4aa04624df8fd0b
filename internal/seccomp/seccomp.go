//go:build amd64 || arm64

package seccomp

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

// Calls are the allowed system calls of a process. Any other call fails with EPERM.
type Calls struct {
	// Allowed are allowed with any arguments.
	Allowed []uint32
	// Limited are allowed if the arguments meet all conditions of one of the alternatives. Creating threads, and
	// signals to threads of the process itself, are always allowed.
	Limited map[uint32][][]Condition
	// Errors are the errors of system calls that fail with another error than EPERM.
	Errors map[uint32]unix.Errno
}

// Condition compares 32 bits of an argument, after a mask, with a value.
type Condition struct {
	offset uint32 // in struct seccomp_data
	mask   uint32 // of the bits that count
	test   bpf.JumpTest
	value  uint32
}

// Offsets in struct seccomp_data; the lower halves of arguments come first.
const (
	callOffset, architectureOffset, argumentsOffset = 0, 4, 16
	word                                            = 4
)

// Masked tests the bits in mask of an argument, by its index from 0.
func Masked(argument, mask uint32, test bpf.JumpTest, value uint32) Condition {
	return Condition{argumentsOffset + 8*argument, mask, test, value}
}

// Equal and Differs test all bits of an int.
func Equal(argument, value uint32) Condition {
	return Masked(argument, ^uint32(0), bpf.JumpEqual, value)
}
func Differs(argument, value uint32) Condition {
	return Masked(argument, ^uint32(0), bpf.JumpNotEqual, value)
}

// Null tests whether all 64 bits of an argument, a pointer, are zero.
func Null(argument uint32) []Condition {
	low := Equal(argument, 0)
	high := low
	high.offset += word
	return []Condition{low, high}
}

const newNamespace = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

var architecture = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]

const allow = unix.SECCOMP_RET_ALLOW

func fail(err unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(err) }

// program returns the filter. The kernel caches the result for system calls whose arguments are not tested.
func (c Calls) program() []bpf.Instruction {
	load := func(offset uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offset, Size: word} }
	all := []bpf.Instruction{
		load(architectureOffset), bpf.JumpIf{Cond: bpf.JumpEqual, Val: architecture, SkipTrue: 1}, bpf.RetConstant{Val: fail(unix.EPERM)},
		load(callOffset),
	}
	is := func(call, verdict uint32) {
		all = append(all, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: 1}, bpf.RetConstant{Val: verdict})
	}
	for _, call := range c.Allowed {
		is(call, allow)
	}
	is(unix.SYS_CLONE3, fail(unix.ENOSYS)) // its arguments are in memory: libraries use clone
	for call, err := range c.Errors {
		is(call, fail(err))
	}
	limited := map[uint32][][]Condition{
		unix.SYS_CLONE:  {{Masked(0, newNamespace, bpf.JumpEqual, 0), Masked(0, unix.CLONE_THREAD, bpf.JumpNotEqual, 0)}},
		unix.SYS_TGKILL: {{Equal(0, uint32(os.Getpid()))}},
	}
	maps.Copy(limited, c.Limited)
	for _, call := range slices.Sorted(maps.Keys(limited)) {
		var body []bpf.Instruction
		for _, alternative := range limited[call] {
			body = append(body, fulfils(alternative)...)
		}
		body = append(body, bpf.RetConstant{Val: fail(unix.EPERM)})
		all = append(all, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: uint8(len(body))})
		all = append(all, body...)
	}
	return append(all, bpf.RetConstant{Val: fail(unix.EPERM)})
}

// fulfils allows the call if all conditions hold, and continues otherwise.
func fulfils(alternative []Condition) []bpf.Instruction {
	const each = 3 // instructions
	var body []bpf.Instruction
	for i, c := range alternative {
		rest := uint8(each*(len(alternative)-1-i) + 1) // with the verdict
		body = append(body,
			bpf.LoadAbsolute{Off: c.offset, Size: word},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.mask},
			bpf.JumpIf{Cond: c.test, Val: c.value, SkipFalse: rest})
	}
	return append(body, bpf.RetConstant{Val: allow})
}

// Install limits all threads of the calling process; the limit cannot be removed. The process has to have set
// no_new_privs (PR_SET_NO_NEW_PRIVS).
func (c Calls) Install() error {
	raw, err := bpf.Assemble(c.program())
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
