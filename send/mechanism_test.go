package send

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// TestDatagramHeaders: datagrams of a UDP socket arrive with the header fields requested.
func TestDatagramHeaders(t *testing.T) {
	r := newRig(t)
	r.introduce()
	for name, change := range map[string]func(*frame.Header){
		"ipv4": func(h *frame.Header) { h.HopLimit, h.TrafficClass, h.DontFragment = 7, 0xb9, true },
		"ipv6": func(h *frame.Header) { h.HopLimit, h.TrafficClass = 7, 0xb9 },
	} {
		to := farAddress
		if name == "ipv6" {
			to = farAddress6
		}
		h := r.header(to, frame.UDP)
		change(h)
		heard := r.capture()
		s, err := schedule.Train(3, 200, time.Millisecond, schedule.Trains{})
		job := jobOf(t, h, s, err)
		var want []string
		for _, b := range job.Frames(func(err error) { t.Error(err) }) {
			want = append(want, withoutChecksum(b))
		}
		if a, _, err := r.send(t.Context(), r.open(dispatch.Options{Mechanism: "udp-sleep"}), job); err != nil || a.Sent != 3 {
			t.Fatalf("%s: %+v, %v", name, a, err)
		}
		for i := range want {
			if got := heard(); got != want[i] {
				t.Errorf("%s: packet %d is\n%x, want\n%x", name, i, got, want[i])
			}
		}
	}
}

// introduce makes the far interface a known neighbour, which need not be solicited.
func (r *rig) introduce() {
	r.Helper()
	var address net.HardwareAddr
	r.in(r.far, func() error {
		l, err := netlink.LinkByName(farDevice)
		if err == nil {
			address = l.Attrs().HardwareAddr
		}
		return err
	})
	r.in(r.near, func() error {
		l, err := netlink.LinkByName(nearDevice)
		for _, to := range []netip.Addr{farAddress, farAddress6} {
			if err == nil {
				err = netlink.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: to.AsSlice(), HardwareAddr: address})
			}
		}
		return err
	})
}

// capture returns what returns the next datagram with a tag that arrives at the far end.
func (r *rig) capture() (next func() string) {
	r.Helper()
	var fd int
	r.in(r.far, func() (err error) {
		all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all)); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: r.peer, Protocol: all})
	})
	r.Cleanup(func() { unix.Close(fd) })
	return func() string {
		b := make([]byte, 2000)
		for {
			n, _, err := unix.Recvfrom(fd, b, 0)
			r.must(err)
			for _, payload := range []int{14 + 28, 14 + 48} {
				if n > payload+frame.PatchBytes {
					if _, ok := frame.ReadTag(b[payload:n]); ok {
						return withoutChecksum(b[:n])
					}
				}
			}
		}
	}
}

// TestDatagramsRefused: frames that a UDP socket cannot send fail with a cause.
func TestDatagramsRefused(t *testing.T) {
	r := newRig(t)
	for want, change := range map[string]func(*frame.Header){
		"protocol is 6":       func(h *frame.Header) { h.Protocol = frame.TCP },
		"EtherType is 0x8100": func(h *frame.Header) { h.VLANs = []uint16{5} },
		"identification":      func(h *frame.Header) { h.ID = 5 },
		"its source is":       func(h *frame.Header) { h.SourceMAC = net.HardwareAddr{2, 0, 0, 0, 0, 1} },
		"port is 0":           func(h *frame.Header) { h.SourcePort = 0 },
		"cannot assign":       func(h *frame.Header) { h.Source = farAddress.Next() },
	} {
		h := r.header(farAddress, frame.UDP)
		change(h)
		s, err := schedule.Train(2, 200, 0, schedule.Trains{})
		a, records, err := r.send(t.Context(), r.open(dispatch.Options{Mechanism: "udp-spin"}), jobOf(t, h, s, err))
		if err != nil || a.Failed != 2 || !strings.Contains(records[0].Error.Error(), want) {
			t.Errorf("%s: %+v, %v", want, a, err)
		}
	}
}

// withoutChecksum is a UDP packet without the checksum, which the device is to fill in.
func withoutChecksum(b []byte) string {
	at := 14 + 20 + 6
	if b[14]>>4 == 6 {
		at += 20
	}
	return string(b[:at]) + string(b[at+2:])
}
