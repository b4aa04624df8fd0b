package dispatch

import (
	"errors"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

// space is a namespace with one end of a veth pair, near0, that is up.
func space(t *testing.T) (name string, file *os.File, device netlink.Link) {
	t.Helper()
	name = namespace.New(t)
	file, err := os.Open(netns.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	in(t, name, func() error {
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "near0"}, PeerName: "far0"})
		for _, end := range []string{"far0", "near0"} {
			if err == nil {
				device, err = netlink.LinkByName(end)
			}
			if err == nil {
				err = netlink.LinkSetUp(device)
			}
		}
		return err
	})
	return name, file, device
}

func in(t *testing.T, name string, f func() error) {
	t.Helper()
	if err := netns.Do(name, f); err != nil {
		t.Fatal(err)
	}
}

// TestXDPBypass: XDP sockets are not chosen for an interface with TC programs, which their
// packets would bypass, unless they are forced.
func TestXDPBypass(t *testing.T) {
	for name, attach := range map[string]func(netlink.Link, *ebpf.Program) error{
		"tcx": func(device netlink.Link, program *ebpf.Program) error {
			l, err := link.AttachTCX(link.TCXOptions{Interface: device.Attrs().Index, Program: program, Attach: ebpf.AttachTCXEgress})
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		},
		"filter": func(device netlink.Link, program *ebpf.Program) error {
			at := netlink.QdiscAttrs{LinkIndex: device.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}
			if err := netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: at}); err != nil {
				return err
			}
			return netlink.FilterAdd(&netlink.BpfFilter{
				FilterAttrs: netlink.FilterAttrs{LinkIndex: at.LinkIndex, Parent: netlink.HANDLE_MIN_EGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
				Fd:          program.FD(), Name: "pass", DirectAction: true,
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			space, _, device := space(t)
			in(t, space, func() error {
				x, err := openXDP(Options{Device: "near0"}, true)
				if err != nil {
					return err
				}
				return x.close()
			})
			program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
				asm.Mov.Imm(asm.R0, 0), asm.Return(),
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer program.Close()
			in(t, space, func() error { return attach(device, program) })
			in(t, space, func() error {
				if _, err := openXDP(Options{Device: "near0"}, true); !errors.Is(err, errBypass) {
					t.Errorf("opened beside a program: %v", err)
				}
				x, err := openXDP(Options{Device: "near0", Mechanism: "xdp"}, true)
				if err == nil {
					err = x.close()
				}
				return err
			})
		})
	}
}
