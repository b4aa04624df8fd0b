package router

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestCost prints what the hooks cost; it judges nothing, because a machine shared with
// others does not hold still.
func TestCost(t *testing.T) {
	r := build(t)
	n := packetCount(t)
	profile := r.profile(Options{Match: Match{}, Costs: true})
	r.flood("10.9.2.2:9", n, 22)
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

func BenchmarkForward(b *testing.B) {
	for _, c := range []struct {
		name    string
		profile bool
		options Options
	}{
		{"native", false, Options{}},
		{"profiled", true, Options{}},
		{"matched", true, Options{Match: Match{Protocol: unix.IPPROTO_UDP}}},
		{"native again", false, Options{}},
		{"profiled again", true, Options{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := build(b)
			if c.profile {
				r.profile(c.options)
			}
			b.ResetTimer()
			r.flood("10.9.2.2:9", b.N, 22)
		})
	}
}
