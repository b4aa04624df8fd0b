package hook

import (
	"errors"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

// TestWatchDevices: each change of a name or an MTU is signalled, after it has happened, and the
// device is found by its index.
func TestWatchDevices(t *testing.T) {
	var changes <-chan struct{}
	if err := netns.Do(namespace.New(t), func() (err error) {
		if changes, err = WatchDevices(t.Context()); err != nil {
			return err
		}
		attributes := netlink.NewLinkAttrs()
		attributes.Name = "one"
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "far"}); err != nil {
			return err
		}
		device, err := Find("one")
		if err != nil {
			return err
		}
		link, err := netlink.LinkByName("one")
		if err != nil {
			return err
		}
		for _, step := range []struct {
			change func() error
			want   Device
		}{
			{func() error { return netlink.LinkSetMTU(link, 1400) }, Device{Name: "one", MTU: 1400}},
			{func() error { return netlink.LinkSetName(link, "other") }, Device{Name: "other", MTU: 1400}},
			{func() error { return netlink.LinkSetMTU(link, 1300) }, Device{Name: "other", MTU: 1300}},
		} {
			if err := step.change(); err != nil {
				return err
			}
			for now := (Device{}); now.Name != step.want.Name || now.MTU != step.want.MTU; {
				select {
				case <-changes:
				case <-time.After(2 * time.Minute):
					t.Fatalf("%+v was not signalled", step.want)
				}
				if now, err = device.Now(); err != nil {
					return err
				}
			}
		}
		if err := netlink.LinkDel(link); err != nil {
			return err
		}
		if _, err = device.Now(); !errors.Is(err, ErrNoDevice) {
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestNewDevicesAreLeftAlone: programs are loaded for a device that is created, or taken off one that
// is removed, some time later, and not while it is being configured.
func TestNewDevicesAreLeftAlone(t *testing.T) {
	known := shapes{}
	for _, step := range []struct {
		event   string
		removed bool
		index   int
		name    string
		mtu     int
		want    bool
	}{
		{"there before", false, 1, "one", 1500, false},
		{"created", false, 2, "two", 1500, false},
		{"has a carrier", false, 2, "two", 1500, false},
		{"another MTU", false, 2, "two", 1400, true},
		{"renamed", false, 1, "other", 1500, true},
		{"removed", true, 2, "two", 1400, false},
		{"made anew", false, 3, "two", 1500, false},
		{"renamed anew", false, 3, "wan", 1500, true},
	} {
		update := netlink.LinkUpdate{
			Header: unix.NlMsghdr{Type: unix.RTM_NEWLINK},
			Link:   &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: step.index, Name: step.name, MTU: step.mtu}},
		}
		if step.removed {
			update.Header.Type = unix.RTM_DELLINK
		}
		if got := known.changed(&update); got != step.want {
			t.Errorf("%s: %t", step.event, got)
		}
	}
}
