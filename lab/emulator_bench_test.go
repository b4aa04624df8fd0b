package lab_test

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
)

// BenchmarkLink sends UDP packets of 56 bytes through an emulated link with 5 ms
// delay as fast as a window of 4000 packets allows, and reports packets per second
// and how late the emulator wrote them. Sender, emulator and receiver share the
// machine's processors.
func BenchmarkLink(b *testing.B) {
	for _, direction := range []string{"one way", "both ways"} {
		b.Run(direction, func(b *testing.B) { benchmarkLink(b, direction == "both ways") })
	}
}

func benchmarkLink(b *testing.B, both bool) {
	bed := up(b, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {delay: 5ms}\n")
	streams := []*stream{bed.open("a", "b", netip.AddrPortFrom(secondIPv4, 9000))}
	if both {
		streams = append(streams, bed.open("b", "a", netip.AddrPortFrom(firstIPv4, 9000)))
	}
	b.ResetTimer()
	done := make(chan bool)
	for _, s := range streams {
		go func() { done <- s.flood(b.N) }()
	}
	for range streams {
		if !<-done {
			b.Fatal("packets were lost on a link without loss")
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N*len(streams))/b.Elapsed().Seconds(), "packets/s")
	truth := bed.truth("a-b", "a")
	b.ReportMetric(float64(truth.Late.P50), "late-p50-ns")
	b.ReportMetric(float64(truth.Late.P99), "late-p99-ns")
	b.ReportMetric(float64(truth.Unread), "unread")
}

// BenchmarkLateness sends packets one at a time, at 2000 per second.
func BenchmarkLateness(b *testing.B) {
	bed := up(b, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {delay: 5ms}\n")
	s := bed.open("a", "b", netip.AddrPortFrom(secondIPv4, 9000))
	pace := time.NewTicker(time.Millisecond / 2)
	defer pace.Stop()
	for b.Loop() {
		<-pace.C
		s.send(1, 1<<30)
	}
	truth := bed.truth("a-b", "a")
	b.ReportMetric(float64(truth.Late.P50), "late-p50-ns")
	b.ReportMetric(float64(truth.Late.P99), "late-p99-ns")
	b.ReportMetric(float64(truth.Late.Max), "late-max-ns")
}

// flood sends count packets with at most a window of them in flight, and reports whether
// all arrived.
func (s *stream) flood(count int) bool {
	const window = 4000
	var received atomic.Int64
	space := make(chan struct{}, 1)
	ended := make(chan bool)
	go func() {
		buffer := make([]byte, 2048)
		for n := range count {
			_ = s.in.SetReadDeadline(time.Now().Add(hang.Limit))
			if _, err := s.in.Read(buffer); err != nil {
				ended <- false
				return
			}
			received.Store(int64(n + 1))
			select {
			case space <- struct{}{}:
			default:
			}
		}
		ended <- true
	}()
	payload := make([]byte, 56)
	for n := range count {
		for int64(n)-received.Load() >= window {
			select {
			case <-space:
			case ok := <-ended:
				return ok
			}
		}
		if _, err := s.out.Write(payload); err != nil {
			return false
		}
	}
	return <-ended
}
