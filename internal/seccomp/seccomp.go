//go:build amd64 || arm64

// Package seccomp limits the system calls of a process to a list (seccomp(2)). What it needs them for is not known here.
//
// Conditions see the lower 32 bits of an argument, which are what the kernel takes of an int. Libraries compare 64 bits: for
// them a level of setsockopt(2) with a bit above these is not SOL_SOCKET.
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

// Calls are the system calls of a process. What is not listed fails with EPERM.
type Calls struct {
	// Allowed are allowed with any arguments.
	Allowed []uint32
	// Limited are allowed with certain arguments: those that fulfil all conditions of one of the alternatives. Threads and
	// signals to the process itself are allowed anyway.
	Limited map[uint32][][]Condition
	// Errors are the errors of system calls that fail with another error than EPERM.
	Errors map[uint32]unix.Errno
}

// Condition is on 32 bits of an argument.
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

// Masked tests the bits of an argument, by its index.
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

// Null tests a pointer.
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

// program is the filter. The kernel caches what does not depend on arguments.
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

// Install limits all threads of the calling process, for good. It has to have no_new_privs.
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
