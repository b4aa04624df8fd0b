package estimate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"pillion.dev/send/estimate"
)

// streams sends ten streams of 100 packets at each of the rates.
func (p *path) streams(size int, rates ...float64) []estimate.Train {
	var all []estimate.Train
	for _, rate := range rates {
		for range 10 {
			all = append(all, p.train(float64(size)*8e9/rate, repeat(100, size)...))
		}
	}
	return all
}

func TestAvailableBandwidth(t *testing.T) {
	for _, mbit := range []float64{10, 100, 1000} {
		capacity := mbit * 1e6
		var rates []float64
		for share := 0.1; share < 1.25; share += 0.1 {
			rates = append(rates, share*capacity)
		}
		for _, row := range []struct {
			name  string
			links []link
			want  float64 // share of the capacity
			width float64 // of the range, likewise
		}{
			{"idle", []link{{rate: capacity}}, 1, 0.25},
			{"30 % evenly spaced", []link{{rate: capacity, load: 0.3}}, 0.7, 0.25},
			{"60 % evenly spaced", []link{{rate: capacity, load: 0.6}}, 0.4, 0.25},
			{"30 % Poisson", []link{{rate: capacity, load: 0.3, poisson: true}}, 0.7, 0.6},
			{"60 % Poisson", []link{{rate: capacity, load: 0.6, poisson: true}}, 0.4, 0.6},
			{"tight link is not the narrow one", []link{{rate: capacity}, {rate: 2 * capacity, load: 0.75, poisson: true}}, 0.5, 0.6},
		} {
			t.Run(fmt.Sprintf("%g Mbit per s, %s", mbit, row.name), func(t *testing.T) {
				a := estimate.EstimateAvailable(newPath(row.links...).streams(800, rates...))
				// A stream at the very rate of an idle link passes.
				want := row.want * capacity
				if !a.Valid || a.Low > 1.001*want || a.High < 0.999*want || a.High-a.Low > row.width*capacity {
					t.Errorf("%.4g to %.4g, valid %t, want %.4g; %+v %v", a.Low, a.High, a.Valid, want, a.Rates, a.Findings)
				}
			})
		}
	}
}

// stream has the one-way delays, in ns, at a steady rate.
func stream(delays ...int64) estimate.Train {
	var s estimate.Train
	for i, d := range delays {
		sent := int64(i) * 100_000
		s = append(s, estimate.Packet{SentNS: sent, ReceivedNS: sent + d, Size: 500})
	}
	return s
}

func delays(n int, at func(i int) float64) []int64 {
	var all []int64
	for i := range n {
		all = append(all, int64(at(i)))
	}
	return all
}

func TestTrend(t *testing.T) {
	lossy := func(s estimate.Train, every int) estimate.Train {
		for i := 0; i < len(s); i += every {
			s[i].Lost = true
		}
		return s
	}
	constant := delays(100, func(int) float64 { return 1e6 })
	rising := delays(100, func(i int) float64 { return 1e6 + 1e3*float64(i) })
	late := stream(constant...)
	for i := range late[50:] {
		late[50+i].SentNS += int64(i) * 50_000
		late[50+i].ReceivedNS = late[50+i].SentNS + 1e6
	}
	bunches := stream(constant...)
	for i := range bunches {
		bunches[i].ReceivedNS = bunches[i/10*10+9].SentNS + 1e6
	}
	for _, row := range []struct {
		name   string
		stream estimate.Train
		want   estimate.Trend
	}{
		{"constant delays", stream(constant...), estimate.NonIncreasing},
		{"rising delays", stream(rising...), estimate.Increasing},
		{"falling delays", stream(delays(100, func(i int) float64 { return 1e6 - 1e3*float64(i) })...), estimate.NonIncreasing},
		{"delays that rise and fall", stream(delays(100, func(i int) float64 { return 1e6 + 1e5*math.Sin(float64(i)/8) })...), estimate.NonIncreasing},
		{"rising twice from the same delay", stream(delays(100, func(i int) float64 { return 1e6 + 1e3*float64(i%50) })...), estimate.Ambiguous},
		{"rising, with outliers", stream(delays(100, func(i int) float64 { return rise(i) })...), estimate.Increasing},
		{"few losses", lossy(stream(constant...), 20), estimate.NonIncreasing},
		{"many losses", lossy(stream(constant...), 5), estimate.Increasing},
		{"too short", stream(rising[:20]...), estimate.Unusable},
		{"nothing", nil, estimate.Unusable},
		{"sent more and more slowly", late, estimate.Unusable},
		{"in bunches", bunches, estimate.Unusable},
		{"sent all at once", make(estimate.Train, 100), estimate.Unusable},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := estimate.TrendOf(row.stream); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// rise is a rising delay with an outlier in each group of ten.
func rise(i int) float64 {
	if i%10 == 3 {
		return 50e6
	}
	return 1e6 + 1e3*float64(i)
}

func TestAvailableBandwidthIsUndecided(t *testing.T) {
	p := newPath(link{rate: 100e6})
	short := p.train(100_000, repeat(10, 500)...)
	for _, row := range []struct {
		name    string
		streams []estimate.Train
		low     float64
		high    float64
		finding estimate.Assumption
	}{
		{"nothing", nil, 0, 0, ""},
		{"all streams pass", p.streams(800, 20e6, 40e6), 40e6, 0, ""},
		{"no stream passes", p.streams(800, 120e6, 140e6), 0, 120e6, ""},
		{"streams too short", []estimate.Train{short, short}, 0, 0, estimate.SteadySending},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := estimate.EstimateAvailable(row.streams)
			if a.Valid || math.Abs(a.Low-row.low) > 1e3 || math.Abs(a.High-row.high) > 1e3 {
				t.Errorf("%+v", a)
			}
			if _, reported := find(a.Findings, row.finding); reported != (row.finding != "") {
				t.Errorf("findings %v", a.Findings)
			}
			if _, err := json.Marshal(a); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestVaryingAvailableBandwidthIsReported(t *testing.T) {
	idle, loaded := newPath(link{rate: 100e6}), newPath(link{rate: 100e6, load: 0.7})
	a := estimate.EstimateAvailable(append(append(idle.streams(800, 20e6, 80e6), loaded.streams(800, 40e6, 60e6)...), idle.streams(800, 120e6)...))
	if _, reported := find(a.Findings, estimate.ConsistentTrends); !reported {
		t.Errorf("findings %v", a.Findings)
	}
	if math.Abs(a.Low-20e6) > 1e3 || math.Abs(a.High-120e6) > 1e3 {
		t.Errorf("%.4g to %.4g, want the range of 2e7 to 1.2e8", a.Low, a.High)
	}
}
