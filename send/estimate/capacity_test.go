package estimate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"pillion.dev/send/estimate"
)

// The bar of the project: within 5 % on an idle path and 15 % on a loaded one, with an
// interval that holds the truth.
func TestCapacityOfAFifoBottleneck(t *testing.T) {
	for _, mbit := range []float64{10, 100, 1000} {
		rate := mbit * 1e6
		for _, row := range []struct {
			name  string
			links []link
			bar   float64
		}{
			{"idle", []link{{rate: rate}}, 0.05},
			{"idle, between faster links", []link{{rate: 10 * rate}, {rate: rate}, {rate: 3 * rate}}, 0.05},
			{"30 % cross traffic", []link{{rate: rate, load: 0.3, poisson: true}}, 0.15},
			{"60 % cross traffic", []link{{rate: rate, load: 0.6, poisson: true}}, 0.15},
			{"60 % evenly spaced cross traffic", []link{{rate: rate, load: 0.6}}, 0.15},
			{"cross traffic behind it", []link{{rate: rate}, {rate: 2 * rate, load: 0.4, poisson: true}}, 0.15},
			{"cross traffic before, on and behind it", []link{{rate: 3 * rate, load: 0.3, poisson: true}, {rate: rate, load: 0.3, poisson: true}, {rate: 3 * rate, load: 0.3, poisson: true}}, 0.15},
		} {
			t.Run(fmt.Sprintf("%g Mbit per s, %s", mbit, row.name), func(t *testing.T) {
				c := estimate.EstimateCapacity(newPath(row.links...).dispersion(300, 20))
				if !c.Valid {
					t.Fatalf("not valid: %v", c.Findings)
				}
				if off := math.Abs(c.Rate.Value/rate - 1); off > row.bar || c.Rate.Low > rate || c.Rate.High < rate {
					t.Errorf("%.5g within %.5g to %.5g, want %g; dispersion rate %+v, modes %+v", c.Rate.Value, c.Rate.Low, c.Rate.High, rate, c.DispersionRate, c.Modes)
				}
				if c.DispersionRate.Value > 1.01*rate {
					t.Errorf("dispersion rate %.5g above the capacity", c.DispersionRate.Value)
				}
			})
		}
	}
}

// A busy link behind the bottleneck, only a little faster, moves many pairs to its own rate.
func TestCapacityThatIsNotClearIsReported(t *testing.T) {
	const rate = 100e6
	unclear := 0
	for seed := range uint64(8) {
		p := newPath(link{rate: rate}, link{rate: 1.5 * rate, load: 0.7, poisson: true})
		p.r = rand.New(rand.NewPCG(seed, 99))
		c := estimate.EstimateCapacity(p.dispersion(100, 20))
		if c.Rate.Low > rate || c.Rate.High < rate {
			t.Errorf("seed %d: the interval does not hold the truth: %+v", seed, c.Rate)
		}
		_, reported := find(c.Findings, estimate.ClearMode)
		if reported == c.Valid || c.Valid && math.Abs(c.Rate.Value/rate-1) > 0.15 {
			t.Errorf("seed %d: %+v, valid %t, findings %v", seed, c.Rate, c.Valid, c.Findings)
		}
		if reported {
			unclear++
		}
	}
	if unclear == 0 {
		t.Error("no estimate was reported as unclear")
	}
}

func TestCapacityWithNoisyTimestamps(t *testing.T) {
	const rate = 1e9
	for _, load := range []float64{0, 0.6} {
		p := newPath(link{rate: rate, load: load, poisson: true})
		p.receive = func(times []float64) []int64 {
			stamps, last := make([]int64, len(times)), int64(0)
			for i, at := range times { // up to some µs late, as kernel time stamps are
				last = max(last, int64(at+1000*math.Abs(p.r.NormFloat64())))
				stamps[i] = last
			}
			return stamps
		}
		c := estimate.EstimateCapacity(p.dispersion(300, 20))
		if !c.Valid || math.Abs(c.Rate.Value/rate-1) > 0.05 || c.Rate.Low > rate || c.Rate.High < rate {
			t.Errorf("load %g: %+v, %v", load, c.Rate, c.Findings)
		}
	}
}

// A receiver that sleeps stamps the first packet of a train late: pairs appear closer.
func TestCapacityWithAReceiverThatWakesUp(t *testing.T) {
	for _, rate := range []float64{10e6, 100e6, 1e9} {
		p := newPath(link{rate: rate})
		p.receive = func(times []float64) []int64 {
			stamps, last := make([]int64, len(times)), int64(0)
			for i, at := range times {
				last = max(last+500, int64(at+2000*math.Abs(p.r.NormFloat64())))
				if i == 0 {
					last = int64(at) + 4000
				}
				stamps[i] = last
			}
			return stamps
		}
		c := estimate.EstimateCapacity(p.dispersion(300, 20))
		if !c.Valid || c.Span == 0 || math.Abs(c.Rate.Value/rate-1) > 0.05 || c.Rate.Low > rate || c.Rate.High < rate {
			t.Errorf("%g: %+v, span %d, pairs %+v, %v", rate, c.Rate, c.Span, c.Modes, c.Findings)
		}
	}
}

func TestCapacityOfTrainsAlone(t *testing.T) {
	p := newPath(link{rate: 100e6, load: 0.3, poisson: true})
	c := estimate.EstimateCapacity(p.dispersion(0, 30))
	if !c.Valid || math.Abs(c.Rate.Value/100e6-1) > 0.15 || c.Samples != 30*49 {
		t.Errorf("%+v", c)
	}
}

func TestDispersionRateOfAnIdlePath(t *testing.T) {
	c := estimate.EstimateCapacity(newPath(link{rate: 100e6}).dispersion(0, 20))
	if math.Abs(c.DispersionRate.Value/100e6-1) > 0.001 || c.DispersionRate.Low > c.DispersionRate.Value || c.DispersionRate.High < c.DispersionRate.Value {
		t.Errorf("%+v", c.DispersionRate)
	}
}

// find returns the finding about an assumption.
func find(findings []estimate.Finding, a estimate.Assumption) (estimate.Finding, bool) {
	for _, f := range findings {
		if f.Assumption == a {
			return f, true
		}
	}
	return estimate.Finding{}, false
}

func TestCoarseTimestampsAreReported(t *testing.T) {
	// A pair of 1500 bytes at 100 Mbit/s arrives 120 µs apart.
	for _, row := range []struct {
		unit              float64
		reported, invalid bool
	}{{1, false, false}, {1000, false, false}, {10_000, true, false}, {30_000, true, true}, {1e6, true, true}} {
		t.Run(fmt.Sprintf("%g ns", row.unit), func(t *testing.T) {
			p := newPath(link{rate: 100e6})
			p.receive = rounded(row.unit)
			c := estimate.EstimateCapacity(p.dispersion(100, 20))
			f, reported := find(c.Findings, estimate.FineTimestamps)
			if reported != row.reported || f.Invalidates != row.invalid || c.Valid == row.invalid {
				t.Errorf("valid %t, findings %v", c.Valid, c.Findings)
			}
			if c.Valid && (c.Rate.Low > 100e6 || c.Rate.High < 100e6) {
				t.Errorf("the interval does not hold the truth: %+v", c.Rate)
			}
		})
	}
}

// bunched stamps packets when an interrupt comes, every so many ns, a short time apart.
func bunched(every, apart float64) func([]float64) []int64 {
	return func(times []float64) []int64 {
		stamps := make([]int64, len(times))
		last := 0.0
		for i, t := range times {
			last = max(math.Ceil(t/every)*every, last+apart)
			stamps[i] = int64(last)
		}
		return stamps
	}
}

func TestCoalescedArrivalsAreReported(t *testing.T) {
	for _, apart := range []float64{0, 300} {
		t.Run(fmt.Sprintf("%g ns apart", apart), func(t *testing.T) {
			p := newPath(link{rate: 1e9})
			p.receive = bunched(125_000, apart)
			c := estimate.EstimateCapacity(p.dispersion(100, 20))
			if f, reported := find(c.Findings, estimate.SeparateArrivals); !reported || !f.Invalidates || c.Valid {
				t.Errorf("valid %t, findings %v", c.Valid, c.Findings)
			}
		})
	}
}

// tokenBucket delays what leaves a link faster than the rate, after a burst in bytes.
func tokenBucket(rate, burst float64) func([]float64) []int64 {
	return func(times []float64) []int64 {
		stamps := make([]int64, len(times))
		tokens, last := burst, times[0]
		for i, t := range times {
			t = max(t, last)
			tokens = min(burst, tokens+(t-last)*rate/8e9)
			if tokens < 1500 {
				t += (1500 - tokens) * 8e9 / rate
				tokens = 1500
			}
			tokens -= 1500
			stamps[i], last = int64(t), t
		}
		return stamps
	}
}

func TestRateLimiterIsReported(t *testing.T) {
	for _, row := range []struct {
		name          string
		pairs         int
		limit         float64
		load          float64
		reported, bad bool
	}{
		{"pairs and trains", 100, 100e6, 0, true, false},
		{"a limit far below the link", 100, 20e6, 0, true, false},
		{"trains alone", 0, 100e6, 0, true, true},
		{"cross traffic", 100, 100e6, 0.2, true, false},
		{"no limiter, but cross traffic", 100, 1e12, 0.6, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newPath(link{rate: 1e9, load: row.load, poisson: true})
			p.receive = tokenBucket(row.limit, 20*1500)
			c := estimate.EstimateCapacity(p.dispersion(row.pairs, 20))
			f, reported := find(c.Findings, estimate.ConstantRate)
			if reported != row.reported || f.Invalidates != row.bad || c.Valid == row.bad {
				t.Errorf("valid %t, findings %v", c.Valid, c.Findings)
			}
			if c.Valid && math.Abs(c.Rate.Value/1e9-1) > 0.15 {
				t.Errorf("%+v, want the link's 1e9", c.Rate)
			}
		})
	}
}

func TestSlowSendingIsReported(t *testing.T) {
	p := newPath(link{rate: 1e9})
	var trains []estimate.Train
	for range 50 {
		trains = append(trains, p.train(50_000, 1500, 1500))
	}
	c := estimate.EstimateCapacity(trains)
	if f, reported := find(c.Findings, estimate.SenderFaster); !reported || !f.Invalidates || c.Valid {
		t.Errorf("valid %t, findings %v", c.Valid, c.Findings)
	}
	if _, reported := find(c.Findings, estimate.LongTrains); !reported {
		t.Errorf("findings %v", c.Findings)
	}
}

func TestUnusableTrains(t *testing.T) {
	pair := func(first, second int64) estimate.Train {
		return estimate.Train{{SentNS: 0, ReceivedNS: first, Size: 1500}, {SentNS: 1, ReceivedNS: second, Size: 1500}}
	}
	lossy := pair(0, 12_000)
	lossy[1].Lost = true
	for _, row := range []struct {
		name                      string
		trains                    []estimate.Train
		samples, lossy, reordered int
	}{
		{"nothing", nil, 0, 0, 0},
		{"empty train", []estimate.Train{{}, pair(0, 1)[:1]}, 0, 0, 0},
		{"lost, reordered and good", []estimate.Train{lossy, pair(12_000, 0), pair(0, 12_000)}, 1, 1, 1},
		{"no time at all between packets", []estimate.Train{pair(5, 5)}, 1, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := estimate.EstimateCapacity(row.trains)
			if c.Valid || c.Samples != row.samples || c.Lossy != row.lossy || c.Reordered != row.reordered {
				t.Errorf("%+v", c)
			}
			if _, reported := find(c.Findings, estimate.EnoughSamples); !reported {
				t.Errorf("findings %v", c.Findings)
			}
			if _, err := json.Marshal(c); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCapacityIsRepeatable(t *testing.T) {
	trains := newPath(link{rate: 100e6, load: 0.5, poisson: true}).dispersion(100, 10)
	if a, b := estimate.EstimateCapacity(trains), estimate.EstimateCapacity(trains); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
}
