package lab_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// tun creates a device without Ethernet in a host, with addresses; its packets are read
// from and written to the file.
func (b *bed) tun(host, device, ipv4, ipv6 string) *os.File {
	b.t.Helper()
	return b.tunWith(host, device, ipv4, ipv6, 0, func(int) error { return nil })
}

// tunWith is tun with flags and settings of the device.
func (b *bed) tunWith(host, device, ipv4, ipv6 string, flags uint16, set func(fd int) error) *os.File {
	b.t.Helper()
	var file *os.File
	b.do(host, func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq(device)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | flags)
		if err := errors.Join(unix.IoctlIfreq(fd, unix.TUNSETIFF, request), set(fd)); err != nil {
			unix.Close(fd)
			return err
		}
		file = os.NewFile(uintptr(fd), device)
		return nil
	})
	b.t.Cleanup(func() { file.Close() })
	b.exec(host, "ip", "link", "set", device, "up", "txqueuelen", "10000")
	b.exec(host, "ip", "addr", "add", ipv4, "dev", device)
	b.exec(host, "ip", "addr", "add", ipv6, "dev", device, "nodad")
	return file
}

// join forwards packets in one direction until the device is closed.
func join(from, to *os.File) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func TestDevicesWithoutEthernet(t *testing.T) {
	for family, to := range toB {
		t.Run(family, func(t *testing.T) {
			b := up(t, "hosts: {a: {}, b: {}}\nlinks: []\n")
			near := b.tun("a", "tun0", "10.77.1.1/24", "fd77:0:0:1::1/64")
			far := b.tun("b", "tun0", "10.77.1.2/24", "fd77:0:0:1::2/64")
			go join(near, far)
			go join(far, near)
			d := b.probe("b", "destination", "tun0")
			b.tryTraffic(b.probe("a", "source", "tun0"), d, to, 2<<20)
		})
	}
}
