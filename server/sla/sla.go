// Package sla computes service levels of a pair of agents: availability by the minute, loss, and a quantile of delay, each
// with its uncertainty, and compares them with targets. An answer is met, missed or undecided: with the interval on one side of the
// target, or with the target in it.
//
// It reads windows of package archive in order and keeps sums by the hour; it asks no archive, and decides nothing about who may
// see what. In the flow it stands between the archive and the API. docs/howto/sla.md has the definitions.
package sla

import (
	"math"
	"slices"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/verdict"
)

// Targets of a service. Those that are zero are not judged.
type Targets struct {
	// Availability is the least share of windows with traffic that are up; Outage the share of loss above which a window
	// is down.
	Availability, Outage float64
	// Loss is the largest share of packets that may be lost.
	Loss float64
	// Quantile of the delays may be at most Delay.
	Quantile float64
	Delay    time.Duration
}

// Level is the service level of a pair.
type Level struct {
	// Step is the length of the longest windows; Up, Down and Silent are how many minutes have little loss, much, and no traffic.
	Step             time.Duration
	Up, Down, Silent int
	Availability     float64 // NaN without traffic
	AvailabilityIs   verdict.Verdict

	Expected, Lost uint64
	Loss           Share
	LossIs         verdict.Verdict

	// Delays is how many there are, DelayNs their quantile, in the interval from DelayLowNs to DelayHighNs, with clock errors; NaN: unknown.
	Delays                           uint64
	DelayNs, DelayLowNs, DelayHighNs float64
	DelayIs                          verdict.Verdict
	// ClockNs is the largest error of the clocks, ClockUnknown the share of delays whose error is unknown.
	ClockNs      int64
	ClockUnknown float64

	// Blocks with traffic, and their length; Sampled is n if histograms are of one row in n.
	Blocks      int
	BlockLength time.Duration
	Sampled     int64
}

// Pair adds up the windows of a pair.
type Pair struct {
	targets  Targets
	from, to time.Time
	last     time.Time // start of the last window
	level    Level
	delay    flows.Distribution
	hours    map[int64]*block
}

// NewPair begins with a range of time.
func NewPair(targets Targets, from, to time.Time) *Pair {
	return &Pair{targets: targets, from: from, to: to, level: Level{Sampled: 1}, hours: map[int64]*block{}}
}

// Add adds the windows of a part of the range, which follows those before.
func (p *Pair) Add(answer *archive.WindowsAnswer) {
	p.level.Step = max(p.level.Step, answer.Step)
	p.level.Sampled = max(p.level.Sampled, answer.Sampled)
	for i := range answer.Windows {
		w := &answer.Windows[i]
		if w.Start.Before(p.from) || !w.Start.Before(p.to) || !w.Start.After(p.last) { // parts are extended to whole windows
			continue
		}
		p.last = w.Start
		hour := w.Start.Unix() / 3600
		if p.hours[hour] == nil {
			p.hours[hour] = newBlock()
		}
		p.hours[hour].add(w)
		p.count(w, answer.Step)
	}
}

// count says whether a window is up. A longer one counts as often as it has minutes.
func (p *Pair) count(w *archive.Window, step time.Duration) {
	lost := min(w.Lost, w.Expected)
	p.level.Expected += w.Expected
	p.level.Lost += lost
	minutes := int(max(step, time.Minute) / time.Minute)
	switch {
	case w.Expected == 0:
	case float64(lost) > p.targets.Outage*float64(w.Expected):
		p.level.Down += minutes
	default:
		p.level.Up += minutes
	}
	if w.Delay.Count == 0 {
		return
	}
	p.level.Delays += w.Delay.Count
	p.delay.Merge(&w.Delay)
	if w.ClockError.Known {
		p.level.ClockNs = max(p.level.ClockNs, w.ClockError.Ns)
	}
}

// Level ends the addition.
func (p *Pair) Level() Level {
	l := &p.level
	l.Silent = max(0, int(p.to.Sub(p.from)/time.Minute)-l.Up-l.Down)
	l.Availability = math.NaN()
	if l.Up+l.Down > 0 {
		l.Availability = float64(l.Up) / float64(l.Up+l.Down)
	}
	if p.targets.Availability != 0 {
		l.AvailabilityIs = verdict.Of(l.Availability, l.Availability, p.targets.Availability, math.Inf(1))
	}
	blocks, length := grouped(p.hours)
	l.BlockLength = length
	l.Blocks = len(slices.DeleteFunc(slices.Clone(blocks), func(b *block) bool { return b.expected == 0 && b.delays == 0 }))
	l.Loss = shareOf(columns(blocks, func(b *block) float64 { return b.lost }), columns(blocks, func(b *block) float64 { return b.expected }))
	if p.targets.Loss != 0 {
		l.LossIs = verdict.Of(l.Loss.Low, l.Loss.High, math.Inf(-1), p.targets.Loss)
	}
	p.judgeDelay(blocks)
	return *l
}

func columns(blocks []*block, value func(*block) float64) []float64 {
	list := make([]float64, len(blocks))
	for i, b := range blocks {
		list[i] = value(b)
	}
	return list
}

// judgeDelay compares the share of delays above the target with that which the quantile permits, and finds the quantile's interval: the
// values for which the same comparison is undecided.
func (p *Pair) judgeDelay(blocks []*block) {
	l := &p.level
	l.DelayNs, l.DelayLowNs, l.DelayHighNs = math.NaN(), math.NaN(), math.NaN()
	all, unknown := columns(blocks, func(b *block) float64 { return b.delays }), 0.0
	total := 0.0
	for i, b := range blocks {
		unknown += b.unknown
		total += all[i]
	}
	if total > 0 {
		l.ClockUnknown, l.DelayNs = unknown/total, p.delay.Quantile(p.targets.Quantile)
	}
	permitted := 1 - p.targets.Quantile
	compare := func(ns int64) (certainly, possibly Share) {
		low, high := make([]float64, len(blocks)), make([]float64, len(blocks))
		for i, b := range blocks {
			low[i], high[i] = b.above(ns)
		}
		return shareOf(low, all), shareOf(high, all)
	}
	if p.targets.Delay != 0 {
		certainly, possibly := compare(int64(p.targets.Delay))
		l.DelayIs = verdict.Of(certainly.Low, possibly.High, math.Inf(-1), permitted)
	}
	values := edges(blocks)
	first := func(is func(ns int64) bool) float64 {
		i, _ := slices.BinarySearchFunc(values, true, func(ns int64, _ bool) int {
			if is(ns) {
				return 0
			}
			return -1
		})
		if i == len(values) {
			return math.NaN()
		}
		return float64(values[i])
	}
	l.DelayHighNs = first(func(ns int64) bool { _, possibly := compare(ns); return possibly.High <= permitted })
	l.DelayLowNs = first(func(ns int64) bool { certainly, _ := compare(ns); return !(certainly.Low > permitted) })
	if certainly, _ := compare(0); math.IsNaN(certainly.Low) { // too few blocks
		l.DelayLowNs = math.NaN()
	}
}
