package main

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
)

const tcpPort = 7 // echo

// connection has both ends of a TCP connection; they live on one thread, which carries
// each segment all the way into the other end's socket.
type connection struct{ client, server int }

func connect(t *testbed, v6 bool) (*connection, error) {
	c := &connection{client: -1, server: -1}
	to := t.destination.address4
	if v6 {
		to = t.destination.address6
	}
	if err := c.open(t, to); err != nil {
		c.close()
		return nil, fmt.Errorf("open TCP connection to %s: %w", to, err)
	}
	return c, nil
}

func (c *connection) open(t *testbed, to netip.Addr) error {
	listener := -1
	err := netns.Do(t.destination.namespace, func() (err error) {
		if listener, err = tcpSocket(to); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
		if err := unix.Bind(listener, socketAddress(to, tcpPort)); err != nil {
			return err
		}
		return unix.Listen(listener, 1)
	})
	if listener >= 0 {
		defer unix.Close(listener)
	}
	if err != nil {
		return err
	}
	err = netns.Do(t.source.namespace, func() (err error) {
		if c.client, err = tcpSocket(to); err != nil {
			return err
		}
		return unix.Connect(c.client, socketAddress(to, tcpPort))
	})
	if err != nil {
		return err
	}
	c.server, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.SetsockoptInt(c.server, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

func (c *connection) close() {
	for _, descriptor := range []int{c.client, c.server} {
		if descriptor >= 0 {
			unix.Close(descriptor)
		}
	}
}

func tcpSocket(family netip.Addr) (int, error) {
	descriptor, err := openSocket(family, unix.SOCK_STREAM)
	if err != nil {
		return -1, err
	}
	return descriptor, unix.SetsockoptInt(descriptor, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}
