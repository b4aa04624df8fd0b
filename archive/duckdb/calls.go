package duckdb

import (
	"slices"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/seccomp"
)

// limitCalls rejects all system calls that answering does not need, in all threads. Only where Landlock limits which,
// files can be opened.
func limitCalls(files bool) error {
	calls := seccomp.Calls{
		Allowed: slices.Concat(seccomp.Basic, []uint32{unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_GET_MEMPOLICY, unix.SYS_SETITIMER, unix.SYS_GETRLIMIT}),
		Limited: map[uint32][][]seccomp.Condition{
			// Names of threads and of memory.
			unix.SYS_PRCTL: {{seccomp.Equal(0, unix.PR_SET_NAME)}, {seccomp.Equal(0, unix.PR_SET_VMA)}},
			// Reading limits, not setting them.
			unix.SYS_PRLIMIT64: {seccomp.Null(2)},
		},
		Errors: map[uint32]unix.Errno{unix.SYS_IOCTL: unix.ENOTTY},
	}
	if files {
		calls.Allowed = append(calls.Allowed, unix.SYS_OPENAT)
	}
	return calls.Install()
}
