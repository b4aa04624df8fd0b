package lab_test

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTCPVariants: whatever options a host's TCP uses, marks leave the connection as it is.
func TestTCPVariants(t *testing.T) {
	t.Parallel()
	fast := []string{"net.ipv4.tcp_fastopen=3"}
	for _, row := range []struct {
		name    string
		set     []string // at both hosts
		connect func(*net.Dialer, *net.ListenConfig)
		grows   string // counter of the receiver that shows that the variant was used
		stays   string // counter of the receiver that shows that it was given up
	}{
		{"Fast Open", fast, fastOpen, "TcpExtTCPFastOpenPassive", "TcpExtTCPFastOpenPassiveFail"},
		{"SYN cookies", []string{"net.ipv4.tcp_syncookies=2"}, nil, "TcpExtSyncookiesRecv", "TcpExtSyncookiesFailed"},
		{"SYN cookies of MPTCP", []string{"net.ipv4.tcp_syncookies=2"}, multipath, "MPTcpExtMPCapableACKRX", "MPTcpExtMPCapableFallbackACK"},
		{"MPTCP", nil, multipath, "MPTcpExtMPCapableACKRX", "MPTcpExtMPCapableFallbackACK"},
		{"no timestamps", []string{"net.ipv4.tcp_timestamps=0"}, nil, "", ""},
		{"no selective acknowledgements", []string{"net.ipv4.tcp_sack=0"}, nil, "", ""},
		{"no window scaling", []string{"net.ipv4.tcp_window_scaling=0"}, nil, "", ""},
		{"no options but the segment size", []string{"net.ipv4.tcp_timestamps=0", "net.ipv4.tcp_sack=0", "net.ipv4.tcp_window_scaling=0"}, nil, "", ""},
		{"ECN", []string{"net.ipv4.tcp_ecn=1"}, nil, "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n")
			for _, setting := range row.set {
				b.exec("a", "sysctl", "-qw", setting)
				b.exec("b", "sysctl", "-qw", setting)
			}
			var by net.Dialer
			at := net.ListenConfig{}
			at.SetMultipathTCP(false)
			if row.connect != nil {
				row.connect(&by, &at)
			}
			before := b.dropped()
			d, s := b.probe("b", "destination", "a"), b.probe("a", "source", "b", "--filter", "proto=tcp")
			for _, to := range []netip.Addr{secondIPv4, secondIPv6} {
				for range 3 { // with Fast Open the first one obtains the cookie
					b.carryOver("a", "b", to, 200_000, at, by).finish()
				}
			}
			if marked, _ := b.agreed(s, d, before); marked.Marked == 0 {
				t.Error("marked none")
			}
			if row.grows != "" && b.counter("b", row.grows) == 0 || row.stays != "" && b.counter("b", row.stays) != 0 {
				t.Errorf("%s is %d, %s is %d", row.grows, b.counter("b", row.grows), row.stays, b.counter("b", row.stays))
			}
			if n := b.counter("b", "TcpInErrs"); n != 0 {
				t.Errorf("%d invalid segments", n)
			}
		})
	}
}

func multipath(by *net.Dialer, at *net.ListenConfig) {
	by.SetMultipathTCP(true)
	at.SetMultipathTCP(true)
}

// fastOpen is RFC 7413.
func fastOpen(by *net.Dialer, at *net.ListenConfig) {
	by.Control = option(unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1)
	at.Control = option(unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 5)
}

// option sets an option of a socket.
func option(level, name, value int) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		if failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, name, value) }); failed != nil {
			return failed
		}
		return err
	}
}

// counter of a host's kernel, by the name that nstat has for it.
func (b *bed) counter(host, name string) (n uint64) {
	b.t.Helper()
	for line := range strings.Lines(b.exec(host, "nstat", "-asz", name)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == name {
			n, _ = strconv.ParseUint(words[1], 10, 64)
			return n
		}
	}
	b.t.Fatalf("no counter %s", name)
	return 0
}
