package lab_test

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUDPVariants: datagrams that programs seldom send arrive with their content, marked or not.
func TestUDPVariants(t *testing.T) {
	t.Parallel()
	const (
		count  = 20
		record = "\x07\x07\x04\x00\x00\x00\x00\x01" // record route and an end
		padded = "\x00\x00\x01\x04\x00\x00\x00\x00"
	)
	b := up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n")
	for _, row := range []struct {
		name    string
		to      netip.Addr
		set     func(fd int) error // the sender's socket
		sizes   []int
		marked  uint64
		skipped string // why the others are not
	}{
		{"no checksum", secondIPv4, number(unix.SOL_SOCKET, unix.SO_NO_CHECK, 1), []int{100, 101}, 40, ""},
		{"options", secondIPv4, text(unix.SOL_IP, unix.IP_OPTIONS, record), []int{50}, 20, ""},
		{"DSCP", secondIPv4, number(unix.SOL_IP, unix.IP_TOS, 0xb8), []int{50}, 20, ""},
		{"traffic class", secondIPv6, number(unix.SOL_IPV6, unix.IPV6_TCLASS, 0xb8), []int{50}, 20, ""},
		{"hop-by-hop options", secondIPv6, text(unix.SOL_IPV6, unix.IPV6_HOPOPTS, padded), []int{50}, 20, ""},
		{"destination options", secondIPv6, text(unix.SOL_IPV6, unix.IPV6_DSTOPTS, padded), []int{50}, 0, "existing_option"},
		{"sizes", secondIPv4, nil, []int{0, 1, 1458, 1459, 1460, 1472}, 60, "mtu"},
		{"sizes over IPv6", secondIPv6, nil, []int{0, 1, 1438, 1439, 1440, 1452}, 60, "mtu"},
		{"fragments", secondIPv4, nil, []int{4000}, 0, "fragment"},
		{"fragments over IPv6", secondIPv6, nil, []int{4000}, 0, "fragment"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := &bed{b.Lab, t}
			d, s := b.probe("b", "destination", "a"), b.probe("a", "source", "b", "--filter", "dst="+row.to.String())
			flow := b.open("a", "b", netip.AddrPortFrom(row.to, 0))
			if row.set != nil {
				flow.option(row.set)
			}
			for _, size := range row.sizes {
				flow.exchange(count, size)
			}
			marked, read := both(s, d)
			if read.Packets != marked.Marked || read.Lost+read.Duplicated+read.Rejected+read.Unrestored != 0 {
				t.Errorf("marked %+v, read %+v", marked, read)
			}
			if marked.Marked != row.marked || row.skipped != "" && marked.Skipped[row.skipped] < count {
				t.Errorf("marked %d, want %d; skipped %v", marked.Marked, row.marked, marked.Skipped)
			}
		})
	}
}

func number(level, name, value int) func(fd int) error {
	return func(fd int) error { return unix.SetsockoptInt(fd, level, name, value) }
}

func text(level, name int, value string) func(fd int) error {
	return func(fd int) error { return unix.SetsockoptString(fd, level, name, value) }
}

// option sets an option of the sender's socket.
func (s *stream) option(set func(fd int) error) {
	s.t.Helper()
	raw, err := s.out.SyscallConn()
	if err != nil {
		s.t.Fatal(err)
	}
	if failed := raw.Control(func(fd uintptr) { err = set(int(fd)) }); failed != nil || err != nil {
		s.t.Fatalf("set option: %v, %v", failed, err)
	}
}
