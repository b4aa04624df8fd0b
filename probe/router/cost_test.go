package router

import (
	"slices"
	"testing"
	"time"
)

// TestCost prints what the hooks cost; it judges nothing, because a machine shared with
// others does not hold still.
func TestCost(t *testing.T) {
	r := build(t)
	profile := r.profile(Options{Match: Match{}, Costs: true})
	r.flood("10.9.2.2:9", packets, 22)
	s := settled(t, profile)
	var total time.Duration
	for _, c := range s.Costs {
		if c.Runs == 0 {
			continue
		}
		total += c.Time
		t.Logf("%-20s %8d runs, %4d ns each", c.Program, c.Runs, int64(c.Time)/int64(c.Runs))
	}
	t.Logf("%d ns for each of %d forwarded packets", int64(total)/int64(s.Account.Forwarded), s.Account.Forwarded)
}

// BenchmarkForward compares the rate of short packets with and without a profile. The
// two take turns, so that what else the machine does meets both.
func BenchmarkForward(b *testing.B) {
	r := build(b)
	client := r.dial("10.9.2.2:9")
	payload := make([]byte, 22) // 64 bytes on Ethernet
	send := func() time.Duration {
		begin := time.Now()
		for range 20_000 {
			client.Write(payload)
		}
		return time.Since(begin)
	}
	r.listen("10.9.2.2:9")
	profile := r.profile(Options{})
	var native, profiled []time.Duration
	for b.Loop() {
		if err := profile.detach(); err != nil {
			b.Fatal(err)
		}
		native = append(native, send())
		if err := profile.attach(); err != nil {
			b.Fatal(err)
		}
		profiled = append(profiled, send())
	}
	slices.Sort(native)
	slices.Sort(profiled)
	b.ReportMetric(float64(native[len(native)/4])/20_000, "native-ns/packet")
	b.ReportMetric(float64(profiled[len(profiled)/4])/20_000, "profiled-ns/packet")
	b.ReportMetric(float64(native[len(native)/4])/float64(profiled[len(profiled)/4]), "rate-ratio")
}
