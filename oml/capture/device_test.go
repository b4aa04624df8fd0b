package capture

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"pillion.dev/agent/loader"
	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/measure"
)

// TestCaptureOnADevice: headers become rows, with the counters at the end.
func TestCaptureOnADevice(t *testing.T) {
	namespace := namespace.New(t)
	var mu sync.Mutex
	rows, came := map[string]int64{}, make(chan struct{}, 1)
	put := func(schema *measure.Schema, _ measure.Sample) {
		mu.Lock()
		defer mu.Unlock()
		rows[schema.Name]++
		select {
		case came <- struct{}{}:
		default:
		}
	}
	of := func(point string) int64 {
		mu.Lock()
		defer mu.Unlock()
		return rows[point]
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var capturing sync.WaitGroup
	capturing.Go(func() {
		if err := netns.Do(namespace, func() error {
			_ = Devices{}.Run(ctx, loader.Capture{Device: "lo", Filter: "udp dst port 5000"}, time.Hour, put) // the test ends it
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	var conn net.PacketConn
	if err := netns.Do(namespace, func() (err error) {
		conn, err = net.ListenPacket("udp", "127.0.0.1:5000")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	late := time.NewTimer(hang.Limit)
	for of("pcap_udp") == 0 { // until the capture has started
		if _, err := conn.WriteTo([]byte("hello"), conn.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-came:
		case <-time.After(10 * time.Millisecond):
		case <-late.C:
			t.Fatal("no rows")
		}
	}
	cancel()
	capturing.Wait()
	if n := of("pcap_udp"); n != of("pcap_ip") || n != of("pcap_ethernet") || of("pcap_counts") != 1 {
		t.Errorf("%v", rows)
	}
}
