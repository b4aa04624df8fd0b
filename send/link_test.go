package send

import (
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// TestWithoutLinkLayer: through a device without link-layer headers, packets are sent from
// the network header on.
func TestWithoutLinkLayer(t *testing.T) {
	space := namespace.New(t)
	file, err := os.Open(netns.Path(space))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var tun *os.File
	h := &frame.Header{Destination: netip.MustParseAddr("192.0.2.2"), SourcePort: 50000, DestinationPort: 9}
	err = netns.Do(space, func() error {
		link := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tun0"}, Mode: netlink.TUNTAP_MODE_TUN, Flags: netlink.TUNTAP_NO_PI, Queues: 1}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		tun = link.Fds[0]
		address, err := netlink.ParseAddr("192.0.2.1/24")
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, address); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
		return Address(h, "tun0")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tun.Close()
	received := make(chan []byte, 100)
	go func() {
		for {
			b := make([]byte, 2000)
			n, err := tun.Read(b)
			if err != nil {
				return
			}
			received <- b[:n]
		}
	}()
	const link, udp = 14, 28
	for _, m := range mechanisms() {
		s, err := dispatch.Open(dispatch.Options{Device: "tun0", Namespace: file, Mechanism: m.Name})
		if m.Name == "xdp" && errors.Is(err, dispatch.ErrMechanism) {
			continue // Ethernet only
		}
		if err != nil {
			t.Fatal(err)
		}
		train, err := schedule.Train(5, 100, time.Millisecond, schedule.Trains{})
		a := NewAccount(DefaultLate)
		err = Run(t.Context(), s, jobOf(t, h, train, err), func(r dispatch.Record) { a.Add(r) })
		if err != nil || a.Sent != 5 {
			t.Fatalf("%s: %+v, %v", m.Name, a, err)
		}
		for number := uint32(0); number < 5; {
			select {
			case b := <-received:
				if b[0]>>4 != 4 {
					continue // of the kernel's own, such as router solicitations
				}
				tag, ok := frame.ReadTag(b[udp:])
				if len(b) != 100-link || !ok || tag.Number != number {
					t.Fatalf("%s: %x", m.Name, b)
				}
				number++
			case <-time.After(hang.Limit):
				t.Fatalf("%s: packet %d did not arrive", m.Name, number)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
