package hook

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

// TestXDPFault: what drivers answer, in words, with the MTU where it is the cause.
func TestXDPFault(t *testing.T) {
	for _, row := range []struct {
		name, kind string
		answer     error
		mtu        int
		want       error
		says       string
	}{
		{"veth", "veth", unix.ERANGE, 1500, ErrMTU, fmt.Sprintf("the other end of this veth (this end has 1500 bytes) may have at most %d bytes", xdpMTUMax())},
		{"another driver", "device", unix.ERANGE, 9000, ErrMTU, fmt.Sprintf("the device has 9000 bytes, its driver takes at most %d or less", xdpMTUMax())},
		{"virtio_net", "device", unix.EINVAL, 9000, ErrMTU, "the device has 9000 bytes"},
		{"invalid for another reason", "device", unix.EINVAL, 1500, unix.EINVAL, ""},
		{"no native XDP", "dummy", unix.EOPNOTSUPP, 9000, ErrLink, "its driver has none, or none for an MTU of 9000 bytes"},
		{"taken", "veth", unix.EBUSY, 9000, ErrOwned, "an XDP program is there already"},
		{"gone", "veth", unix.ENODEV, 9000, unix.ENODEV, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := xdpFault(row.answer, row.kind, row.mtu)
			if !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.says) || row.want != ErrMTU && errors.Is(err, ErrMTU) {
				t.Errorf("got %q", err)
			}
		})
	}
}

// TestXDPOnLargeMTU: a veth takes a program up to the MTU that the error about a larger one names.
func TestXDPOnLargeMTU(t *testing.T) {
	space := namespace.New(t)
	program := passProgramOf(t, ebpf.XDP, "test_pass")
	if err := netns.Do(space, func() error {
		l := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v0", MTU: 9000}, PeerName: "v1"}
		if err := netlink.LinkAdd(l); err != nil {
			return err
		}
		peer, err := netlink.LinkByName("v1")
		if err != nil {
			return err
		}
		device, err := Find("v0")
		if err != nil {
			return err
		}
		for mtu, fits := range map[int]bool{1500: true, xdpMTUMax(): true, 9000: false} {
			if err := netlink.LinkSetMTU(peer, mtu); err != nil {
				return err
			}
			attached, err := Attach(program, device, Options{Point: XDP, Stay: true})
			if fits && err != nil || !fits && (!errors.Is(err, ErrMTU) || !strings.Contains(err.Error(), fmt.Sprint(xdpMTUMax()))) {
				t.Errorf("MTU %d: %v", mtu, err)
			}
			if err == nil {
				if err := attached.Close(); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
