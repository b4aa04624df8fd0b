package loader

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/measure"
)

// shelf counts the rows of points.
type shelf struct {
	mu   sync.Mutex
	rows map[string]int64
	came chan struct{}
}

func newShelf() *shelf { return &shelf{rows: map[string]int64{}, came: make(chan struct{}, 1)} }

func (s *shelf) put(schema *measure.Schema, _ measure.Sample) { s.add(schema.Name) }

func (s *shelf) add(point string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[point]++
	select {
	case s.came <- struct{}{}:
	default:
	}
}

func (s *shelf) of(point string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[point]
}

// TestCaptureOnADevice: headers become rows, with the counters at the end.
func TestCaptureOnADevice(t *testing.T) {
	namespace := namespace.New(t)
	kept := newShelf()
	c := Capture{Device: "lo", Filter: "udp dst port 5000"}
	l := &Loader{options: Options{Sink: kept.put, Interval: time.Hour}, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var capturing sync.WaitGroup
	capturing.Go(func() {
		if err := netns.Do(namespace, func() error { l.captureOn(ctx, c); return nil }); err != nil {
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
	for kept.of("pcap_udp") == 0 { // until the capture has started
		if _, err := conn.WriteTo([]byte("hello"), conn.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-kept.came:
		case <-time.After(10 * time.Millisecond):
		case <-late.C:
			t.Fatal("no rows")
		}
	}
	cancel()
	capturing.Wait()
	if n := kept.of("pcap_udp"); n != kept.of("pcap_ip") || n != kept.of("pcap_ethernet") || kept.of("pcap_counts") != 1 {
		t.Errorf("%v", kept.rows)
	}
}
