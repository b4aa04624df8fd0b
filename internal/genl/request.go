// Package genl makes requests of generic netlink (the kernel's include/uapi/linux/genetlink.h).
package genl

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// header is struct genlmsghdr: command, version, two reserved bytes. The netlink library's type
// has only two bytes, of which it sends four.
type header [nl.SizeofGenlmsg]byte

func (h header) Len() int          { return len(h) }
func (h header) Serialize() []byte { return h[:] }

// NewRequest returns a request to a family by its name, without attributes yet. Flags are netlink
// flags (NLM_F_ACK, NLM_F_DUMP). An error is the kernel's, ENOENT for an unknown family.
func NewRequest(family string, command, version uint8, flags int) (*nl.NetlinkRequest, error) {
	id, err := find(family)
	if err != nil {
		return nil, fmt.Errorf("find generic netlink family %s: %w", family, err)
	}
	return newRequest(id, command, version, flags), nil
}

func newRequest(id uint16, command, version uint8, flags int) *nl.NetlinkRequest {
	request := nl.NewNetlinkRequest(int(id), flags)
	request.AddData(header{command, version})
	return request
}

// find asks for the number of a family.
func find(family string) (uint16, error) {
	request := newRequest(nl.GENL_ID_CTRL, nl.GENL_CTRL_CMD_GETFAMILY, nl.GENL_CTRL_VERSION, 0)
	request.AddData(nl.NewRtAttr(nl.GENL_CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated(family)))
	messages, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return 0, err
	}
	for _, message := range messages {
		attributes, err := Attributes(message)
		if err != nil {
			return 0, err
		}
		for _, a := range attributes {
			if a.Attr.Type == nl.GENL_CTRL_ATTR_FAMILY_ID && len(a.Value) >= 2 {
				return nl.NativeEndian().Uint16(a.Value), nil
			}
		}
	}
	return 0, errors.New("the answer has no number")
}

// Attributes reads the attributes of a message that answers a request.
func Attributes(message []byte) ([]syscall.NetlinkRouteAttr, error) {
	if len(message) < nl.SizeofGenlmsg {
		return nil, fmt.Errorf("answer of %d bytes has no header", len(message))
	}
	return nl.ParseRouteAttr(message[nl.SizeofGenlmsg:])
}
