package confine

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

var errNoLandlock = errors.New("the kernel has no Landlock (CONFIG_SECURITY_LANDLOCK, 5.13)")

// rulePort is LANDLOCK_RULE_NET_PORT.
const rulePort = 2

// Rights to change files, by the version that has them; all versions know the first.
const (
	changes = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
	// creations are never granted: devices, FIFOs and links have no use in the folder.
	creations = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM
)

// landlock lets the calling thread, and the processes that it starts, change files only below
// the folder, bind only these TCP ports, and signal only processes of its own.
//
// It is not go-landlock, which restricts all threads of the process: this one starts programs that may do more.
func landlock(folder int, ports []uint16) error {
	version, _, failed := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if failed != 0 {
		return errNoLandlock
	}
	granted := uint64(changes)
	attr := unix.LandlockRulesetAttr{}
	size := uintptr(8)
	if version >= 2 {
		granted |= unix.LANDLOCK_ACCESS_FS_REFER // rename between folders
	}
	if version >= 3 {
		granted |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	attr.Handled_access_fs = granted | creations
	if version >= 4 {
		attr.Handled_access_net, size = unix.LANDLOCK_ACCESS_NET_BIND_TCP, 16
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped, size = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET|unix.LANDLOCK_SCOPE_SIGNAL, 24
	}
	rules, _, failed := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if failed != 0 {
		return fmt.Errorf("create Landlock rules: %w", failed)
	}
	defer unix.Close(int(rules))
	if err := allowBelow(int(rules), folder, granted); err != nil {
		return err
	}
	nowhere, err := unix.Open("/dev/null", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	defer unix.Close(nowhere)
	if err := allowBelow(int(rules), nowhere, unix.LANDLOCK_ACCESS_FS_WRITE_FILE|attr.Handled_access_fs&unix.LANDLOCK_ACCESS_FS_TRUNCATE); err != nil {
		return err
	}
	for _, port := range ports {
		if attr.Handled_access_net == 0 {
			break
		}
		rule := struct{ access, port uint64 }{attr.Handled_access_net, uint64(port)}
		if _, _, failed := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, rules, rulePort, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); failed != 0 {
			return fmt.Errorf("allow port %d: %w", port, failed)
		}
	}
	if _, _, failed := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); failed != 0 {
		return fmt.Errorf("apply Landlock rules: %w", failed)
	}
	return nil
}

// allowBelow grants rights to a file or below a folder.
func allowBelow(rules, place int, rights uint64) error {
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(place)}
	if _, _, failed := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); failed != 0 {
		return fmt.Errorf("allow changes of files: %w", failed)
	}
	return nil
}
