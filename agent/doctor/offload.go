package doctor

import (
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// offloads are a device's segmentation and receive offloads, by name: on, off, or
// absent where the driver does not tell.
type offloads map[string]string

const (
	offloadOn  = "on"
	offloadOff = "off"
)

// offloadNames is the display order.
var offloadNames = []string{"gro", "gso", "tso", "lro"}

func (o offloads) String() string {
	var words []string
	for _, name := range offloadNames {
		if state := o[name]; state != "" {
			words = append(words, strings.ToUpper(name)+" "+state)
		}
	}
	if len(words) == 0 {
		return "offloads unknown"
	}
	return strings.Join(words, ", ")
}

// ethtool commands that return one number, of linux/ethtool.h.
const (
	ethtoolGetTSO   = 0x1e
	ethtoolGetGSO   = 0x23
	ethtoolGetFlags = 0x25
	ethtoolGetGRO   = 0x2b
	flagLRO         = 1 << 15
)

// Offloads describes the offloads of a device in the calling thread's namespace.
func Offloads(device string) string { return readOffloads(device).String() }

func readOffloads(device string) offloads {
	found := offloads{}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return found
	}
	defer unix.Close(fd)
	for _, o := range []struct {
		name    string
		command uint32
		mask    uint32
	}{
		{"gro", ethtoolGetGRO, 1}, {"gso", ethtoolGetGSO, 1}, {"tso", ethtoolGetTSO, 1},
		{"lro", ethtoolGetFlags, flagLRO},
	} {
		value, err := ethtool(fd, device, o.command)
		if err != nil {
			continue
		}
		found[o.name] = offloadOff
		if value&o.mask != 0 {
			found[o.name] = offloadOn
		}
	}
	return found
}

// ethtool runs a command that returns one number.
func ethtool(fd int, device string, command uint32) (uint32, error) {
	value := struct{ command, data uint32 }{command: command}
	// A struct ifreq; the kernel copies all 40 bytes.
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [24 - unsafe.Sizeof(uintptr(0))]byte
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	runtime.KeepAlive(&value)
	if errno != 0 {
		return 0, errno
	}
	return value.data, nil
}
