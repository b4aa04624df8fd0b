package lab_test

import (
	"net"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A TCP header has 40 bytes of options: what others leave no room for arrives without marks.
func TestTCPOptionBesideOtherOptions(t *testing.T) {
	for _, row := range []struct {
		name     string
		address  netip.Addr
		at       func(*net.ListenConfig)
		by       func(*net.Dialer)
		from, to string
		loss     string
		check    func(sourceSummary) bool
	}{
		{
			"MPTCP", secondIPv6, func(l *net.ListenConfig) { l.SetMultipathTCP(true) }, func(d *net.Dialer) { d.SetMultipathTCP(true) },
			"a", "b", "0%", func(s sourceSummary) bool { return s.Connections.Full > 0 && s.Connections.Stopped == 0 },
		},
		{
			"MD5 signatures", secondIPv4, func(l *net.ListenConfig) { l.SetMultipathTCP(false); l.Control = signed(firstIPv4) },
			func(d *net.Dialer) { d.Control = signed(secondIPv4) },
			"a", "b", "0%", func(s sourceSummary) bool { return s.Marked > 100 && s.Connections.Stopped == 0 },
		},
		{
			"selective acknowledgements", firstIPv4, func(*net.ListenConfig) {}, func(*net.Dialer) {},
			"b", "a", "5%", func(s sourceSummary) bool {
				return s.Connections.Full > 0 && s.Skipped["tcp_options"] >= s.Connections.Full && s.Marked > 0
			},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {seed: 7, delay: 1ms, queue: 100000, from: {b: {loss: "+row.loss+"}}}\n")
			s := b.probe("a", "source", "b", tcpOption, "--filter", "proto=tcp")
			var at net.ListenConfig
			var by net.Dialer
			row.at(&at)
			row.by(&by)
			b.carryOver(row.from, row.to, row.address, 4<<20, at, by).finish()
			var marked sourceSummary
			s.finish(&marked)
			if !row.check(marked) {
				t.Errorf("%+v", marked)
			}
		})
	}
}

// signed sets the key of connections with an address (RFC 2385).
func signed(with netip.Addr) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		key := unix.TCPMD5Sig{Keylen: 6, Key: [80]uint8{'s', 'e', 'c', 'r', 'e', 't'}}
		key.Addr.Family = unix.AF_INET
		four := with.As4()
		for i, octet := range four { // struct sockaddr_in: family, port, address
			key.Addr.Data[2+i] = octet
		}
		var failed error
		if err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptTCPMD5Sig(int(fd), unix.IPPROTO_TCP, unix.TCP_MD5SIG, &key)
		}); err != nil {
			return err
		}
		return failed
	}
}
