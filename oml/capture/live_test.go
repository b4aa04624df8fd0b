package capture

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/measure"
)

// inside captures in a namespace while traffic runs, which starts with the capture.
func inside(t *testing.T, host string, o Options, traffic func() error) (Tally, []string) {
	t.Helper()
	var rows []string
	o.Sink = func(schema *measure.Schema, sample measure.Sample) { rows = append(rows, rowText(schema, sample)) }
	var sending sync.WaitGroup
	o.Ready = func() {
		sending.Go(func() {
			if err := netns.Do(host, traffic); err != nil {
				t.Error(err)
			}
		})
	}
	var tally Tally
	err := netns.Do(host, func() (err error) {
		tally, err = Run(t.Context(), o)
		return err
	})
	sending.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return tally, rows
}

// talk sends datagrams to itself, from port 4000 alternately to 5000 and 5001.
func talk(address string, datagrams int) error {
	from, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(address), Port: 4000})
	if err != nil {
		return err
	}
	defer from.Close()
	for i := range datagrams {
		to := &net.UDPAddr{IP: net.ParseIP(address), Port: 5000 + i%2}
		if _, err := from.WriteTo(make([]byte, 1000), to); err != nil && !strings.Contains(err.Error(), "refused") {
			return err
		}
	}
	return nil
}

// TestDevice: each packet is reported once, truncated and filtered.
func TestDevice(t *testing.T) {
	host := namespace.New(t)
	tally, rows := inside(t, host, Options{Device: "lo", Filter: "udp dst port 5001 and greater 1000", Count: 10},
		func() error { return talk("127.0.0.1", 20) })
	if tally.Seen != 10 || tally.Decoded != 10 || len(rows) != 30 || tally.Dropped+tally.Filtered != 0 {
		t.Errorf("%v, %d rows", tally, len(rows))
	}
	if want := "ethernet src=00:00:00:00:00:00 dst=00:00:00:00:00:00 type=2048 bytes=1042"; rows[0] != want {
		t.Errorf("%q, want %q", rows[0], want)
	}
	if !strings.HasPrefix(rows[2], "udp sport=4000 dport=5001 bytes=1008") {
		t.Errorf("%q", rows[2])
	}
}

// TestTaggedDevice: VLAN tags that the kernel removes are reported.
func TestTaggedDevice(t *testing.T) {
	near, far := namespace.New(t), namespace.New(t)
	err := netns.Do(near, func() error {
		there, err := os.Open(netns.Path(far))
		if err != nil {
			return err
		}
		defer there.Close()
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "a"}, PeerName: "b", PeerNamespace: netlink.NsFd(there.Fd()),
		})
	})
	if err == nil {
		err = errors.Join(netns.Do(near, func() error { return setUp("a") }), netns.Do(far, func() error { return setUp("b") }))
	}
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := Options{Device: "b", Filter: "arp", Count: 1, Sink: func(schema *measure.Schema, sample measure.Sample) {
		rows = append(rows, rowText(schema, sample))
	}}
	var sending sync.WaitGroup
	o.Ready = func() {
		sending.Go(func() {
			frame := bytesOf(t, "ffffffffffff 020000000001 8100 0007 0806"+payload)
			if err := netns.Do(near, func() error { return sendFrame("a", frame) }); err != nil {
				t.Error(err)
				cancel()
			}
		})
	}
	err = netns.Do(far, func() error {
		_, err := Run(ctx, o)
		return err
	})
	sending.Wait()
	if err != nil || len(rows) != 1 || !strings.Contains(rows[0], "type=2054 vlan=7") {
		t.Errorf("%v: %q", err, rows)
	}
}

func setUp(device string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

func sendFrame(device string, frame []byte) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index})
}

// TestDeviceEnds: the capture stops with the context, with the kernel's counters.
func TestDeviceEnds(t *testing.T) {
	host := namespace.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	tallies := make(chan Tally, 10)
	err := netns.Do(host, func() error {
		_, err := Run(ctx, Options{Device: "lo", Ready: cancel, Tallied: func(tally Tally) { tallies <- tally }})
		return err
	})
	if err != nil || len(tallies) == 0 {
		t.Errorf("%v, %d tallies", err, len(tallies))
	}
	err = netns.Do(host, func() error {
		_, err := Run(t.Context(), Options{Device: "nowhere"})
		return err
	})
	if !errors.Is(err, ErrDevice) {
		t.Error(err)
	}
}

// TestSlowReader: kernel drops are counted, and the counters add up.
func TestSlowReader(t *testing.T) {
	host := namespace.New(t)
	const datagrams = 3000 // of 1 kB: more than the socket holds
	sent := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := Options{Device: "lo", Filter: "udp", Room: func() error { <-sent; return nil }, Sink: func(*measure.Schema, measure.Sample) {}}
	var sending sync.WaitGroup
	o.Ready = func() {
		sending.Go(func() {
			defer close(sent)
			if err := netns.Do(host, func() error { return talk("127.0.0.1", datagrams) }); err != nil {
				t.Error(err)
			}
			cancel() // the rest stays unread
		})
	}
	var tally Tally
	if err := netns.Do(host, func() (err error) {
		tally, err = Run(ctx, o)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	sending.Wait()
	if sum := tally.Seen + tally.Dropped + tally.Unread; sum != datagrams || tally.Dropped == 0 {
		t.Errorf("%v: %d in all, want %d", tally, sum, datagrams)
	}
}
