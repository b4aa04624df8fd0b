package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/genl"
)

// ioamUnset is the kernel's default of ioam6_id, which means that no identifier is set: all 24 bits are ones.
const ioamUnset = 0xffffff

const ioamFolder = "/proc/sys/net/ipv6"

// IOAM is how the host fills in the IOAM traces of packets that it forwards (RFC 9197).
type IOAM struct {
	// Available says that the kernel supports IOAM (since Linux 5.15).
	Available bool
	// ID of the node; 0 if none is set.
	ID uint32
	// Devices are the interfaces, except lo, on which the host fills in the traces of incoming packets.
	Devices []string
	// Namespaces are the IOAM namespaces of which the host fills in traces.
	Namespaces []uint16
}

// ReadIOAM reads the settings of the kernel. Listing namespaces takes privileges: if only the namespaces are
// unknown, the error wraps ErrNamespaces.
func ReadIOAM() (IOAM, error) {
	state, err := readIOAM(ioamFolder)
	if err != nil || !state.Available {
		return state, err
	}
	if state.Namespaces, err = ioamNamespaces(); err != nil {
		return state, fmt.Errorf("%w: %w", ErrNamespaces, err)
	}
	return state, nil
}

// ErrNamespaces is returned if the IOAM namespaces cannot be listed.
var ErrNamespaces = errors.New("list ioam namespaces")

// readIOAM reads the identifier and the interfaces from a folder such as ioamFolder.
func readIOAM(folder string) (IOAM, error) {
	text, err := os.ReadFile(filepath.Join(folder, "ioam6_id"))
	if errors.Is(err, fs.ErrNotExist) {
		return IOAM{}, nil
	}
	if err != nil {
		return IOAM{}, fmt.Errorf("read identifier of ioam node: %w", err)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return IOAM{}, fmt.Errorf("read identifier of ioam node: %w", err)
	}
	state := IOAM{Available: true}
	if id < ioamUnset {
		state.ID = uint32(id)
	}
	settings, err := filepath.Glob(filepath.Join(folder, "conf", "*", "ioam6_enabled"))
	if err != nil {
		return IOAM{}, fmt.Errorf("list devices with ioam: %w", err)
	}
	for _, path := range settings {
		device := filepath.Base(filepath.Dir(path))
		if device == "all" || device == "default" || device == "lo" { // all has no effect; default is for new devices
			continue
		}
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == "1" {
			state.Devices = append(state.Devices, device)
		}
	}
	return state, nil
}

// Constants of generic netlink for IOAM, from the kernel's include/uapi/linux/ioam6_genl.h.
const (
	ioamFamily         = "IOAM6"
	ioamVersion        = 1
	ioamDumpNamespaces = 3 // command
	ioamNamespaceID    = 1 // attribute, 16 bits
)

func ioamNamespaces() ([]uint16, error) {
	request, err := genl.NewRequest(ioamFamily, ioamDumpNamespaces, ioamVersion, unix.NLM_F_DUMP)
	if err != nil {
		return nil, err
	}
	messages, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return nil, err
	}
	var namespaces []uint16
	for _, message := range messages {
		attributes, err := genl.Attributes(message)
		if err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
		for _, a := range attributes {
			if a.Attr.Type == ioamNamespaceID && len(a.Value) >= 2 {
				namespaces = append(namespaces, nl.NativeEndian().Uint16(a.Value))
			}
		}
	}
	return namespaces, nil
}
