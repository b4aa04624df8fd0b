package search

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// device is simulated: its verdict on a load.
type device func(load float64) Verdict

// capacity passes loads up to a number.
func capacity(most float64) device {
	return func(load float64) Verdict {
		if load <= most {
			return Passed
		}
		return Lossy
	}
}

// TestHighest: the result is the truth within the resolution, wherever the limit lies.
func TestHighest(t *testing.T) {
	rates := Range{Least: 1, Most: 1000, Resolution: 0.005}
	frames := Range{Least: 1, Most: 5000, Resolution: 1e-9, Whole: true}
	for name, row := range map[string]struct {
		Range
		device device
		least  float64 // of the result
		most   float64
		limit  Limit
	}{
		"in the middle":      {rates, capacity(637), 633.8, 637, ByDevice},
		"low":                {rates, capacity(1.7), 1.69, 1.7, ByDevice},
		"the lowest":         {rates, capacity(1), 1, 1, ByDevice},
		"none":               {rates, capacity(0.5), 0, 0, ByDevice},
		"all":                {rates, capacity(1e9), 1000, 1000, ByMaximum},
		"frames":             {frames, capacity(1234), 1234, 1234, ByDevice},
		"one frame":          {frames, capacity(1), 1, 1, ByDevice},
		"no frame":           {frames, capacity(0), 0, 0, ByDevice},
		"sender is slower":   {rates, sender(300, capacity(400)), 298, 300, BySender},
		"sender is faster":   {rates, sender(500, capacity(400)), 398, 400, ByDevice},
		"sender sends none":  {rates, sender(0, capacity(400)), 0, 0, BySender},
		"loss between loads": {rates, gap(300, 500, capacity(800)), 796, 800, ByDevice},
	} {
		got, err := row.Highest(func(load float64) (Verdict, error) {
			if load < row.Least || load > row.Most || row.Whole && load != math.Floor(load) {
				t.Fatalf("%s: tried %g", name, load)
			}
			return row.device(load), nil
		})
		if err != nil || got.Load < row.least || got.Load > row.most || got.Limit != row.limit {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if got.Limit != ByMaximum && got.Load > 0 && row.device(got.Above) == Passed {
			t.Errorf("%s: %+v passes above", name, got)
		}
		if got.Trials > 60 {
			t.Errorf("%s: %d trials", name, got.Trials)
		}
	}
}

// sender cannot offer more than a load.
func sender(most float64, d device) device {
	return func(load float64) Verdict {
		if load > most {
			return Invalid
		}
		return d(load)
	}
}

// gap loses between two loads as well.
func gap(from, to float64, d device) device {
	return func(load float64) Verdict {
		if load > from && load < to {
			return Lossy
		}
		return d(load)
	}
}

// TestHighestConfirms: with random loss, the result has passed twice in a row, and was
// bracketed within the resolution.
func TestHighestConfirms(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		type outcome struct {
			load float64
			Verdict
		}
		var all []outcome
		r := Range{Least: 1, Most: 1000, Resolution: 0.01}
		got, err := r.Highest(func(load float64) (Verdict, error) {
			v := Passed
			if random.Float64() < load/1000 {
				v = Lossy
			}
			if random.IntN(10) == 0 {
				v = Invalid
			}
			all = append(all, outcome{load, v})
			return v, nil
		})
		if err != nil || len(all) != got.Trials {
			t.Fatalf("seed %d: %+v, %v", seed, got, err)
		}
		passes := 0
		for _, o := range all {
			if o.load == got.Load && o.Verdict == Passed {
				passes++
			}
		}
		if got.Load > 0 && passes < 2 || got.Above > 0 && got.Load > 0 && got.Above-got.Load > r.Resolution*got.Above {
			t.Fatalf("seed %d: %+v, passed %d times", seed, got, passes)
		}
	}
}

func TestHighestErrors(t *testing.T) {
	for _, r := range []Range{{}, {Least: 1, Resolution: 0.1}, {Least: 2, Most: 1, Resolution: 0.1}, {Least: 1, Most: 2}, {Least: 1, Most: math.Inf(1), Resolution: 0.1}, {Least: 1, Most: 2, Resolution: math.NaN()}} {
		if _, err := r.Highest(nil); !errors.Is(err, ErrRange) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	failure := errors.New("interrupted")
	for after := range 8 {
		got, err := (Range{Least: 1, Most: 100, Resolution: 0.01}).Highest(func(load float64) (Verdict, error) {
			if after--; after < 0 {
				return "", failure
			}
			return capacity(50)(load), nil
		})
		passed := 50.0
		if after = got.Trials; after < 3 { // at 100, at 50, and the one that fails
			passed = 0
		}
		if !errors.Is(err, failure) || got.Load != 0 || got.Passed != passed {
			t.Errorf("%+v, %v, want %g as the highest that passed", got, err, passed)
		}
	}
}

// TestFalling: loads fall until two in a row have no loss.
func TestFalling(t *testing.T) {
	loss := func(most float64) func(float64) (float64, Verdict, error) {
		return func(load float64) (float64, Verdict, error) { return max(0, 1-most/load), Passed, nil }
	}
	for name, row := range map[string]struct {
		trial func(float64) (float64, Verdict, error)
		steps int
	}{
		"no loss": {loss(1000), 2}, "loss at first": {loss(750), 5}, "loss at all": {loss(0), 10},
		"not offered": {func(load float64) (float64, Verdict, error) {
			if load > 550 {
				return 0, Invalid, nil
			}
			return 0, Passed, nil
		}, 7},
	} {
		steps, err := Falling(1000, 0.1, row.trial)
		if err != nil || len(steps) != row.steps {
			t.Errorf("%s: %+v, %v", name, steps, err)
		}
		for i, s := range steps {
			want, v, _ := row.trial(s.Load)
			if math.Abs(s.Load-1000+float64(i)*100) > 1e-6 || s.Loss != want || s.Valid != (v == Passed) {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
	if _, err := Falling(0, 0.1, nil); !errors.Is(err, ErrRange) {
		t.Error(err)
	}
}

// TestDelays compares with values counted by hand.
func TestDelays(t *testing.T) {
	var delays []int64
	for i := range int64(1000) { // 1000, 1, 999, 2 and so on: each value once
		v := i/2 + 1
		if i%2 == 0 {
			v = 1000 - i/2
		}
		delays = append(delays, v)
	}
	got := DelaysOf(delays)
	want := Delays{
		Frames: 1000, Min: 1, Typical: 500, Mean: 500.5, P99: 990, Worst: 999, Max: 1000, PDV: 998,
		IPDV: Variation{Min: -999, P1: -981, Median: -1, P99: 980, Max: 998},
	}
	got.Mean = math.Round(got.Mean*1e6) / 1e6
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = DelaysOf([]int64{5, -1, 7, 9})
	if got.Frames != 3 || got.IPDV.Min != 2 || got.IPDV.Max != 2 {
		t.Errorf("across a lost frame: %+v", got)
	}
	if got := DelaysOf([]int64{-1}); got != (Delays{}) {
		t.Errorf("%+v", got)
	}
}
