//go:build long

package lab_test

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestLongAsymmetricPaths: marks are read on the interfaces that the session names, although the
// way back uses another one.
func TestLongAsymmetricPaths(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, twoWays)
	b.do("b", func() error {
		for near, back := range map[string]string{
			"10.77.1.1": "10.77.2.1", "10.77.3.1": "10.77.2.1", "fd77:0:0:1::1": "fd77:0:0:2::1", "fd77:0:0:3::1": "fd77:0:0:2::1",
		} {
			to := net.ParseIP(near)
			bits := 128
			if four := to.To4(); four != nil {
				to, bits = four, 32
			}
			route := &netlink.Route{Dst: &net.IPNet{IP: to, Mask: net.CIDRMask(bits, bits)}, Gw: net.ParseIP(back)}
			if err := netlink.RouteReplace(route); err != nil {
				return err
			}
		}
		return nil
	})
	app := b.steady(secondIPv4, 2)
	app.passes(some)
	b.running("s", "--from", "a", "--to", "b", "--trace=-1s", "--device", "b=a,back")
	app.marks()
	b.stopped("s")
	app.unmarked()
	b.reaches(came(app.end()), "SELECT sum(packets) FROM flows")
}
