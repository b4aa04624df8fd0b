package sla

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/verdict"
)

var month = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// minuteOf is a window with delays.
func minuteOf(at time.Time, expected, lost uint64, clock flows.Bound, delays ...int64) archive.Window {
	w := archive.Window{Start: at, Sum: flows.Sum{Counts: flows.Counts{Expected: expected, Lost: lost, Packets: expected - lost}, ClockError: clock}}
	for _, ns := range delays {
		w.Delay.Add(ns)
	}
	return w
}

// answers are the windows of a month, by the day.
func answers(step time.Duration, window func(at time.Time) *archive.Window) (all []archive.WindowsAnswer) {
	for day := range 30 {
		one := archive.WindowsAnswer{Step: step, Sampled: 1}
		for at := month.AddDate(0, 0, day); at.Before(month.AddDate(0, 0, day+1)); at = at.Add(step) {
			if w := window(at); w != nil {
				one.Windows = append(one.Windows, *w)
			}
		}
		all = append(all, one)
	}
	return all
}

func levelOf(targets Targets, all []archive.WindowsAnswer) Level {
	p := NewPair(targets, month, month.AddDate(0, 1, 0))
	for i := range all {
		p.Add(&all[i])
	}
	return p.Level()
}

// TestKnownOutages: an outage of 100 minutes, one of half its packets for 7, and 3 days without traffic give exactly these minutes.
func TestKnownOutages(t *testing.T) {
	begin := month.Add(50 * time.Hour)
	all := answers(time.Minute, func(at time.Time) *archive.Window {
		w := minuteOf(at, 100, 0, flows.BoundOf(1000), 5e6)
		switch since := at.Sub(begin); {
		case since >= 0 && since < 100*time.Minute:
			w.Lost = 100
		case since >= 200*time.Minute && since < 207*time.Minute:
			w.Lost = 50
		case since >= 300*time.Minute && since < 310*time.Minute:
			w.Lost = 20 // as much as a minute may lose that is up
		case at.Day() >= 11 && at.Day() <= 13:
			return nil
		case at.Equal(month): // nothing was sent
			w.Expected, w.Delay = 0, flows.Distribution{}
		}
		return &w
	})
	l := levelOf(Targets{Availability: 0.998, Outage: 0.2, Loss: 0.003, Quantile: 0.99, Delay: 20 * time.Millisecond}, all)
	minutes := 27*24*60 - 1
	if l.Down != 107 || l.Up != minutes-107 || l.Silent != 3*24*60+1 || l.Availability != float64(minutes-107)/float64(minutes) || l.Step != time.Minute {
		t.Errorf("%d up, %d down, %d silent, %v", l.Up, l.Down, l.Silent, l.Availability)
	}
	if l.Lost != 100*100+7*50+10*20 || l.Expected != uint64(100*minutes) || l.Loss.Value != float64(l.Lost)/float64(l.Expected) {
		t.Errorf("lost %d of %d, %v", l.Lost, l.Expected, l.Loss)
	}
	// One outage in a month says little of the rate of losses, but all of the delays are known.
	if l.AvailabilityIs != verdict.Missed || l.LossIs != verdict.Undecided || l.DelayIs != verdict.Met || l.Blocks != 27 || l.BlockLength != 24*time.Hour {
		t.Errorf("availability %s, loss %s %+v, delay %s, %d blocks of %v", l.AvailabilityIs, l.LossIs, l.Loss, l.DelayIs, l.Blocks, l.BlockLength)
	}
}

// TestHours: of a month of which only sums by the hour are kept, an hour counts as 60 minutes.
func TestHours(t *testing.T) {
	all := answers(time.Hour, func(at time.Time) *archive.Window {
		w := minuteOf(at, 100, 0, flows.BoundOf(0), 1e6)
		if at.Day() == 2 && at.Hour() < 3 {
			w.Lost = 100
		}
		return &w
	})
	if l := levelOf(Targets{Outage: 0.2, Quantile: 0.99}, all); l.Down != 180 || l.Up+l.Down != 30*24*60 || l.Step != time.Hour || l.LossIs != "" || l.AvailabilityIs != "" {
		t.Errorf("%+v", l)
	}
}

// TestVerdicts: targets on both sides of what is, and too little to say.
func TestVerdicts(t *testing.T) {
	constant := func(clock flows.Bound, ns ...int64) []archive.WindowsAnswer {
		return answers(10*time.Minute, func(at time.Time) *archive.Window {
			w := minuteOf(at, 1000, 1, clock, ns...)
			return &w
		})
	}
	for _, test := range []struct {
		name        string
		all         []archive.WindowsAnswer
		target      time.Duration
		loss        float64
		delay, lost verdict.Verdict
	}{
		{"met", constant(flows.BoundOf(1e5), 1e7), 20 * time.Millisecond, 0.002, verdict.Met, verdict.Met},
		{"missed", constant(flows.BoundOf(1e5), 1e7), 5 * time.Millisecond, 0.0005, verdict.Missed, verdict.Missed},
		{"within the clock error", constant(flows.BoundOf(2e6), 1e7), 11 * time.Millisecond, 0.001, verdict.Undecided, verdict.Undecided},
		{"beyond the clock error", constant(flows.BoundOf(2e6), 1e7), 13 * time.Millisecond, 0.1, verdict.Met, verdict.Met},
		{"unknown clocks", constant(flows.Bound{}, 1e7), time.Second, 0.1, verdict.Undecided, verdict.Met},
		{"one packet in fifty is late", constant(flows.BoundOf(0), append(make([]int64, 49), 5e7)...), 20 * time.Millisecond, 1, verdict.Missed, verdict.Met},
		{"no traffic", nil, time.Second, 0.1, verdict.Undecided, verdict.Undecided},
	} {
		l := levelOf(Targets{Outage: 0.2, Loss: test.loss, Quantile: 0.99, Delay: test.target}, test.all)
		if l.DelayIs != test.delay || l.LossIs != test.lost {
			t.Errorf("%s: delay %s (%v to %v), loss %s (%+v)", test.name, l.DelayIs, l.DelayLowNs, l.DelayHighNs, l.LossIs, l.Loss)
		}
	}
	few := constant(flows.BoundOf(0), 1e6)[:1]
	few[0].Windows = few[0].Windows[:30] // five hours
	if l := levelOf(Targets{Outage: 0.2, Loss: 0.5, Quantile: 0.5, Delay: time.Second}, few); l.LossIs != verdict.Undecided || l.DelayIs != verdict.Undecided || !math.IsNaN(l.DelayLowNs) || !math.IsNaN(l.DelayHighNs) {
		t.Errorf("of five hours: %+v", l)
	}
}

// TestIntervalsHold: of many months from a process whose rates are known, with hours and days that are worse than others, at least
// about as many intervals hold the truth as they say. The oracle is the simulation.
func TestIntervalsHold(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const months = 200
	for _, test := range []struct {
		name string
		// carry is the part of an hour's state that is that of the hour before.
		carry, spread float64
	}{{"independent hours", 0, 0.5}, {"half a day of memory", 0.9, 0.8}, {"heavy bursts", 0.5, 1.5}} {
		lossHeld, delayHeld := 0, 0
		for range months {
			loss, delay := simulate(random, test.carry, test.spread)
			if loss {
				lossHeld++
			}
			if delay {
				delayHeld++
			}
		}
		// 95 % of 200, less three standard errors, and what heavy tails take from any interval of 30 days.
		if least := 0.89 * months; float64(lossHeld) < least || float64(delayHeld) < least {
			t.Errorf("%s: of %d intervals, %d of loss and %d of delay hold", test.name, months, lossHeld, delayHeld)
		}
		t.Logf("%s: %.1f %% of loss, %.1f %% of delay", test.name, 100*float64(lossHeld)/months, 100*float64(delayHeld)/months)
	}
}

// simulate makes a month by the hour: the logarithm of the rate of loss is a stationary process, so that its mean is known; delays above
// 20 ms follow another. It reports whether the interval of loss holds its mean, and that of the 99th percentile 20 ms, of which
// exactly 1 % are above on average.
func simulate(random *rand.Rand, carry, spread float64) (loss, delay bool) {
	const rate, packets = 0.002, 20_000
	state, late := spread*random.NormFloat64(), spread*random.NormFloat64()
	p := NewPair(Targets{Outage: 0.2, Quantile: 0.99, Delay: 20 * time.Millisecond}, month, month.AddDate(0, 1, 0))
	for hour := range 30 * 24 {
		innovate := spread * math.Sqrt(1-carry*carry)
		state, late = carry*state+innovate*random.NormFloat64(), carry*late+innovate*random.NormFloat64()
		mean := math.Exp(-spread * spread / 2) // of the exponential of a normal
		w := archive.Window{Start: month.Add(time.Duration(hour) * time.Hour)}
		w.Expected = packets
		w.Lost = uint64(poisson(random, packets*rate*math.Exp(state)*mean))
		above := min(1000, uint64(poisson(random, 1000*0.01*math.Exp(late)*mean)))
		low, high := flows.Distribution{}, flows.Distribution{}
		low.Add(10e6)
		high.Add(30e6)
		w.Delay.Merge(scaled(low, 1000-above))
		w.Delay.Merge(scaled(high, above))
		w.ClockError = flows.BoundOf(0)
		p.Add(&archive.WindowsAnswer{Step: time.Hour, Sampled: 1, Windows: []archive.Window{w}})
	}
	l := p.Level()
	// The true share above 20 ms is the permitted one: an interval that holds is undecided.
	return l.Loss.Low <= rate && rate <= l.Loss.High, l.DelayIs == verdict.Undecided
}

// scaled is a distribution of one value, n times.
func scaled(d flows.Distribution, n uint64) *flows.Distribution {
	if n == 0 {
		return &flows.Distribution{}
	}
	h := d.Histogram
	h.Counts = []uint64{n}
	h.Offsets = nil
	many := flows.NewDistribution(n, d.Min, d.Min, d.Max, h)
	return &many
}

func poisson(random *rand.Rand, mean float64) float64 {
	if mean > 100 {
		return max(0, math.Round(mean+math.Sqrt(mean)*random.NormFloat64()))
	}
	limit, product, n := math.Exp(-mean), random.Float64(), 0.0
	for ; product > limit; n++ {
		product *= random.Float64()
	}
	return n
}

// TestShare: the interval of independent packets is that of Clopper and Pearson, and no loss is no proof of none.
func TestShare(t *testing.T) {
	all, none := make([]float64, 30), make([]float64, 30)
	for i := range all {
		all[i] = 1000
	}
	if s := shareOf(none, all); s.Value != 0 || s.Low != 0 || s.High < 1e-4 || s.High > 2e-4 { // 3.7 / 30,000, and Student's t
		t.Errorf("no loss: %+v", s)
	}
	if s := shareOf(all, all); s.Value != 1 || s.High != 1 || s.Low > 0.9999 || s.Low < 0.9997 {
		t.Errorf("all lost: %+v", s)
	}
	outage := make([]float64, 30)
	outage[3] = 1000
	if s := shareOf(outage, all); s.Low > 0.001 || s.High < 0.1 {
		t.Errorf("one day lost: %+v", s)
	}
	if s := shareOf(none[:9], all[:9]); !math.IsNaN(s.High) || s.Value != 0 {
		t.Errorf("nine blocks: %+v", s)
	}
}
