package estimate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"pillion.dev/send/estimate"
)

// chirps sends chirps of 30 packets from a rate on, by a factor.
func (p *path) chirps(n, size int, from, factor float64) (all []estimate.Train) {
	for range n {
		intervals := []float64{0}
		for rate := from; len(intervals) < 30; rate *= factor {
			intervals = append(intervals, float64(size)*8e9/rate)
		}
		all = append(all, p.trainAt(intervals, size))
	}
	return all
}

func TestChirps(t *testing.T) {
	for _, mbit := range []float64{10, 100, 1000} {
		capacity := mbit * 1e6
		for _, row := range []struct {
			name  string
			links []link
			want  float64 // share of the capacity
			off   float64 // relative; further only if the interval holds the truth
		}{
			{"idle", []link{{rate: capacity}}, 1, 0.02},
			{"30 % evenly spaced", []link{{rate: capacity, load: 0.3}}, 0.7, 0.1},
			{"60 % evenly spaced", []link{{rate: capacity, load: 0.6}}, 0.4, 0.1},
			{"30 % Poisson", []link{{rate: capacity, load: 0.3, poisson: true}}, 0.7, 0.3},
			{"60 % Poisson", []link{{rate: capacity, load: 0.6, poisson: true}}, 0.4, 0.3},
		} {
			t.Run(fmt.Sprintf("%g Mbit per s, %s", mbit, row.name), func(t *testing.T) {
				e := estimate.EstimateChirps(newPath(row.links...).chirps(60, 1000, capacity/10, 1.1))
				want := row.want * capacity
				near := math.Abs(e.Rate.Value/want-1) <= row.off
				if !e.Valid || !near && (e.Rate.Low > want || e.Rate.High < want) || e.Rate.Low > e.Rate.Value || e.Rate.High < e.Rate.Value {
					t.Errorf("%+v, want %.4g", e, want)
				}
			})
		}
	}
}

// Chirps that are too fast or too slow are reported.
func TestChirpsOfOtherRates(t *testing.T) {
	for name, from := range map[string]float64{"too fast": 150e6, "too slow": 0.1e6} {
		e := estimate.EstimateChirps(newPath(link{rate: 100e6}).chirps(30, 1000, from, 1.12))
		if _, reported := find(e.Findings, estimate.AvailableInsideRates); !reported || e.Valid {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestUnusableChirps(t *testing.T) {
	for name, chirps := range map[string][]estimate.Train{
		"none": nil, "short": {{}, {{}}}, "at once": {{{Size: 100}, {Size: 100}}},
	} {
		e := estimate.EstimateChirps(chirps)
		if _, err := json.Marshal(e); err != nil || e.Valid {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}
