package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/genl"
)

// ioamMax is the largest identifier of an IOAM node: 24 bits, of which all ones means that
// none is set.
const ioamMax = 0xfffffe

// Generic netlink of IOAM, from the kernel's include/uapi/linux/ioam6_genl.h.
const (
	ioamFamily       = "IOAM6"
	ioamVersion      = 1
	ioamAddNamespace = 1 // command
	ioamNamespaceID  = 1 // attribute, 16 bits
)

// enableIOAM makes the namespace of the calling thread an IOAM node of namespace 0. It is
// called before there are interfaces, which take over the default.
func enableIOAM(id uint32) error {
	for _, s := range []struct{ path, value string }{
		{"/proc/sys/net/ipv6/ioam6_id", strconv.FormatUint(uint64(id), 10)},
		{"/proc/sys/net/ipv6/conf/default/ioam6_enabled", "1"},
	} {
		err := os.WriteFile(s.path, []byte(s.value), 0o644)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("enable ioam: this kernel has none (Linux 5.15 has): %w", err)
		}
		if err != nil {
			return fmt.Errorf("enable ioam: %w", err)
		}
	}
	request, err := genl.NewRequest(ioamFamily, ioamAddNamespace, ioamVersion, unix.NLM_F_ACK)
	if err != nil {
		return err
	}
	request.AddData(nl.NewRtAttr(ioamNamespaceID, nl.Uint16Attr(0)))
	if _, err := request.Execute(unix.NETLINK_GENERIC, 0); err != nil {
		return fmt.Errorf("add ioam namespace 0: %w", err)
	}
	return nil
}
