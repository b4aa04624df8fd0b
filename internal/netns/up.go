package netns

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// upMost is how long AwaitUp waits. The kernel looks at carriers once a second at most.
const upMost = 10 * time.Second

// AwaitUp waits until the kernel has noticed that a device in a namespace has a carrier, and made
// its address a local one: until then it drops what is sent there.
func AwaitUp(name, device string, address netip.Addr) error {
	return Do(name, func() error {
		for end := time.Now().Add(upMost); ; time.Sleep(time.Millisecond) {
			link, err := netlink.LinkByName(device)
			if err != nil {
				return fmt.Errorf("find %s: %w", device, err)
			}
			routes, _ := netlink.RouteGet(address.AsSlice()) // fails while there is none
			if link.Attrs().OperState == netlink.OperUp && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL {
				return nil
			}
			if time.Now().After(end) {
				return fmt.Errorf("await %s: it is %s with routes %v after %v", device, link.Attrs().OperState, routes, upMost)
			}
		}
	})
}
