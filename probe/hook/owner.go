package hook

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Own makes the caller the only one of its role on the device, within the
// network namespace, until the listener is closed or the process ends however it
// ends. The listener is also where the owner can be reached: Address.
func Own(role string, device Device) (*net.UnixListener, error) {
	listener, err := net.ListenUnix("unix", Address(role, device))
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("become %s of device %q: %w", role, device.Name, ErrOwned)
	}
	if err != nil {
		return nil, fmt.Errorf("become %s of device %q: %w", role, device.Name, err)
	}
	return listener, nil
}

// Address is an abstract socket: it has no file that could be left behind, and
// each network namespace has its own.
func Address(role string, device Device) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("@pillion/%s/%d", role, device.Index)}
}
