package seccomp

import "golang.org/x/sys/unix"

// older are older forms of basic calls, which newer processors do not have.
var older = []uint32{
	unix.SYS_ARCH_PRCTL, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_ACCESS, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_UNLINK,
	unix.SYS_POLL, unix.SYS_EPOLL_WAIT, unix.SYS_TIME,
}
