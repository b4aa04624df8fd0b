package source

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// stampRule is the rule of stamp.h in seconds of exact length, with 1 in 16.
type stampRule struct {
	random              *rand.Rand
	second              int64 // ns
	count, left, hold   int
	begun, settled, had bool
}

const (
	ruleEvery  = 16
	ruleFast   = 8 * ruleEvery
	ruleHold   = 16
	ruleSecond = int64(1e9)
)

func (r *stampRule) gap() int { return 1 + r.random.IntN(2*ruleEvery-1) }

func (r *stampRule) nextSecond(now int64) bool {
	due := r.left != 0 && !r.had
	switch {
	case r.count >= ruleFast:
		r.hold = ruleHold
	case r.hold > 1:
		r.hold--
	default:
		r.left = 0
	}
	r.settled, r.had, r.second, r.count, r.begun = r.count > 0, false, now, 0, true
	return due
}

func (r *stampRule) due(now int64) bool {
	due := (!r.begun || now-r.second >= ruleSecond) && r.nextSecond(now)
	left := r.left
	if r.count < ruleFast {
		r.count++
		if limit := map[bool]int{true: ruleFast, false: ruleEvery}[r.settled]; r.left == 0 && r.count >= limit {
			r.left, r.had = r.gap(), true
		}
	}
	if left > 1 {
		r.left = left - 1
		return due
	}
	if left == 1 {
		r.left, r.had = r.gap(), true
	}
	return true
}

// bursts returns the times of bursts of size packets, one in each period.
func bursts(period int64, size int) []int64 {
	var times []int64
	for at := int64(0); at < 60*ruleSecond; at += period {
		for i := range size {
			times = append(times, at+int64(i)*1000)
		}
	}
	return times
}

// TestStampsAreUnbiased simulates a queue with constant service time, in which the delay
// of a packet depends on its place in the burst: the delays of the stamped packets are
// distributed like those of all packets. A rule that stamps the first packet of a tick, or
// after an idle tick, besides one in 16 has means 17 to 77 % below the truth here.
func TestStampsAreUnbiased(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var poisson []int64
	for at := 0.0; at < 60e9; at += random.ExpFloat64() * 200e3 {
		poisson = append(poisson, int64(at))
	}
	rare := append(bursts(5*ruleSecond, 5000), bursts(ruleSecond, 1)...)
	slices.Sort(rare)
	for _, row := range []struct {
		name    string
		times   []int64
		service int64
		least   int // stamps
		most    int
	}{
		{"Poisson, 5000/s, load 0.8", poisson, 160e3, 18000, 20000},
		{"8 packets every ms", bursts(1e6, 8), 50e3, 29000, 31000},
		{"32 packets every 3 ms", bursts(3e6, 32), 50e3, 39000, 41000},
		{"32 packets every 20 ms", bursts(20e6, 32), 100e3, 5800, 6300},
		{"video, 30 frames/s of 40 packets", bursts(ruleSecond/30, 40), 100e3, 4300, 4800},
		{"200 packets every second", bursts(ruleSecond, 200), 50e3, 700, 900},
		{"5000 packets every 5 s, one every second between", rare, 50e3, 3500, 4100},
		{"50 packets/s", bursts(20e6, 1), 50e3, 2900, 3000},
	} {
		t.Run(row.name, func(t *testing.T) {
			rule := stampRule{random: random}
			var all, stamped []float64
			var free int64
			for _, at := range row.times {
				free = max(at, free) + row.service
				delay := float64(free - at)
				all = append(all, delay)
				if rule.due(at + 1) {
					stamped = append(stamped, delay)
				}
			}
			if n := len(stamped); n < row.least || n > row.most {
				t.Errorf("%d of %d stamped, want %d to %d", n, len(all), row.least, row.most)
			}
			if bias := mean(stamped)/mean(all) - 1; math.Abs(bias) > 0.04 {
				t.Errorf("mean off by %+.1f %%", 100*bias)
			}
			slices.Sort(all)
			slices.Sort(stamped)
			for _, q := range []float64{0.1, 0.5, 0.9} {
				value := stamped[int(q*float64(len(stamped)))]
				low, _ := slices.BinarySearch(all, value)
				high, _ := slices.BinarySearch(all, value+1)
				if n := float64(len(all)); float64(low)/n > q+0.04 || float64(high)/n < q-0.04 {
					t.Errorf("quantile %v lies between %.3f and %.3f", q, float64(low)/n, float64(high)/n)
				}
			}
		})
	}
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
