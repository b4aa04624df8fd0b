//go:build verify

package lab_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestVerifyCapacity: the capacity of emulated links is estimated within 5 % and the interval holds
// the truth, or the result says that it is not valid. One repetition proves little:
// make bench-capacity counts how often.
func TestVerifyCapacity(t *testing.T) {
	valid := 0
	for name, rate := range map[string]float64{"10mbit": 10e6, "100mbit": 100e6, "1gbit": 1e9} {
		t.Run(name, func(t *testing.T) {
			b := up(t, narrowed(name))
			r, _ := b.estimate("capacity", "--dev", "b", "--to", secondIPv4.String(), "--receive-dev", "a", "--receive-netns", "b")
			c := r.Summary.Capacity
			t.Logf("%+v", r.Summary)
			if !c.Valid {
				return
			}
			valid++
			if math.Abs(c.Rate.Value/rate-1) > 0.05 || c.Rate.Low > rate || c.Rate.High < rate {
				t.Errorf("%+v, want %g", c.Rate, rate)
			}
		})
	}
	if valid == 0 {
		t.Error("no estimate was valid")
	}
}

// TestVerifyTokenBucket: a token bucket behind the first hop is recognised, with its rate, and is not
// taken for a link.
func TestVerifyTokenBucket(t *testing.T) {
	b := up(t, plainRouter)
	b.exec("r", "tc", "qdisc", "replace", "dev", "b", "root", "tbf", "rate", "50mbit", "burst", "32kb", "latency", "1s")
	r, _ := b.estimate("capacity", "--dev", "r", "--to", "10.77.2.2", "--receive-dev", "r", "--receive-netns", "b")
	for _, a := range r.Summary.Assumptions {
		if a.Assumption == "constant rate" {
			var rate float64
			_, after, _ := strings.Cut(a.Detail, " to ")
			_, err := fmt.Sscanf(after, "%f Mbit/s", &rate)
			if a.Holds || !strings.Contains(a.Detail, "token bucket") || err != nil || math.Abs(rate-50) > 1 {
				t.Errorf("%+v; rate %v, %v", a, rate, err)
			}
			return
		}
	}
	t.Errorf("%+v", r.Summary)
}
