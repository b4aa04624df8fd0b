package emulator

import (
	"fmt"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	pillionns "pillion.dev/internal/netns"
)

// dropCounter returns a function that reads how many frames for the tap of an end the
// kernel has dropped.
func dropCounter(end End) (func() uint64, error) {
	namespace, err := netns.GetFromPath(pillionns.Path(end.Namespace))
	if err != nil {
		return nil, fmt.Errorf("open namespace %s: %w", end.Namespace, err)
	}
	defer namespace.Close()
	handle, err := netlink.NewHandleAt(namespace, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink in %s: %w", end.Namespace, err)
	}
	var mu sync.Mutex
	var last uint64
	return func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		link, err := handle.LinkByName(end.Interface)
		if err == nil && link.Attrs().Statistics != nil {
			last = link.Attrs().Statistics.TxDropped
		}
		return last
	}, nil
}
