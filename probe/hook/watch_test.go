package hook

import (
	"errors"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

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
		for err == nil {
			<-changes
			_, err = device.Now()
		}
		if !errors.Is(err, ErrNoDevice) {
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
