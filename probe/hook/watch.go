package hook

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// WatchDevices signals that devices of the calling thread's network namespace were renamed, or have
// another MTU, until the context ends. Several changes may be one signal. It does not signal that
// devices are created or removed: whoever loads programs at that moment takes the processor, and the
// kernel's lock of devices, from those who are about to configure the device.
func WatchDevices(ctx context.Context) (<-chan struct{}, error) {
	links, err := subscribe(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch devices: %w", err)
	}
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	go func() {
		known := shapes{}
		for err == nil {
			for link := range links {
				if known.changed(&link) {
					signal()
				}
			}
			if ctx.Err() != nil {
				return
			}
			signal() // the kernel has dropped events
			links, err = subscribe(ctx)
		}
	}()
	return changed, nil
}

// shapes are the names and MTUs of devices, by index: there are events about carriers and the like, too.
type shapes map[int]string

// changed takes an event, and reports whether a known device has another name or MTU.
func (s shapes) changed(link *netlink.LinkUpdate) bool {
	index := link.Attrs().Index
	if link.Header.Type == unix.RTM_DELLINK {
		delete(s, index)
		return false
	}
	before, known := s[index]
	s[index] = fmt.Sprint(link.Attrs().Name, " ", link.Attrs().MTU)
	return known && before != s[index]
}

func subscribe(ctx context.Context) (<-chan netlink.LinkUpdate, error) {
	links, done := make(chan netlink.LinkUpdate), make(chan struct{})
	context.AfterFunc(ctx, func() { close(done) }) // which closes the links
	return links, netlink.LinkSubscribeWithOptions(links, done, netlink.LinkSubscribeOptions{ListExisting: true})
}
