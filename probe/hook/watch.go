package hook

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// WatchDevices signals that devices of the calling thread's network namespace were created, removed
// or renamed, or have another MTU, until the context ends or the kernel drops an event; then it
// closes the channel. Several changes may be one signal.
func WatchDevices(ctx context.Context) (<-chan struct{}, error) {
	links, done := make(chan netlink.LinkUpdate), make(chan struct{})
	if err := netlink.LinkSubscribe(links, done); err != nil {
		close(done)
		return nil, fmt.Errorf("watch devices: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { close(done) }) // which closes the links
	changed := make(chan struct{}, 1)
	go func() {
		defer close(changed)
		defer func() {
			if stop() {
				close(done)
			}
		}()
		type shape struct {
			name string
			mtu  int
		}
		known := map[int]shape{}
		for link := range links {
			attrs := link.Attrs()
			now := shape{attrs.Name, attrs.MTU}
			if link.Header.Type == unix.RTM_DELLINK {
				delete(known, attrs.Index)
			} else if known[attrs.Index] == now {
				continue // traffic of other events, such as of a carrier
			} else {
				known[attrs.Index] = now
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed, nil
}
