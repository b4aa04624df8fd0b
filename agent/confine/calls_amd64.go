package confine

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_X86_64

// allowedHere are older forms of allowed calls, which newer processors do not have.
var allowedHere = []uint32{
	unix.SYS_ARCH_PRCTL, unix.SYS_OPEN, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_ACCESS, unix.SYS_READLINK, unix.SYS_GETDENTS, unix.SYS_MKDIR, unix.SYS_RMDIR,
	unix.SYS_UNLINK, unix.SYS_RENAME, unix.SYS_CHMOD, unix.SYS_PIPE, unix.SYS_DUP2, unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT,
	unix.SYS_EVENTFD, unix.SYS_TIME, unix.SYS_FADVISE64,
}
