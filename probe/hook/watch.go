package hook

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// WatchDevices signals that devices of the calling thread's network namespace were created, removed
// or renamed, or have another MTU, until the context ends. Several changes may be one signal.
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
		known := map[int]string{} // names and MTUs, since there are events about carriers and the like
		for err == nil {
			for link := range links {
				index, shape := link.Attrs().Index, fmt.Sprint(link.Attrs().Name, " ", link.Attrs().MTU)
				if link.Header.Type == unix.RTM_DELLINK {
					shape = ""
				}
				if known[index] != shape {
					signal()
				}
				if known[index] = shape; shape == "" {
					delete(known, index)
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

func subscribe(ctx context.Context) (<-chan netlink.LinkUpdate, error) {
	links, done := make(chan netlink.LinkUpdate), make(chan struct{})
	context.AfterFunc(ctx, func() { close(done) }) // which closes the links
	return links, netlink.LinkSubscribe(links, done)
}
