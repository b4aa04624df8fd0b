package host

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"pillion.dev/agent/spool"
	"pillion.dev/measure"
	"pillion.dev/probe/hook"
	"pillion.dev/session"
)

// Sampler samples the points of this package at each interval. Spool and Sink are
// required.
type Sampler struct {
	// Interval between readings; default 10 s.
	Interval time.Duration
	// Sink takes the samples of one point at one time.
	Sink func(schema *measure.Schema, samples []measure.Sample) error
	// Spool returns the state of the spool.
	Spool func() spool.Stats
	// Probe returns the cost of the BPF programs; nil, or a nil result, if not counted.
	Probe func() *hook.Cost
	Log   *slog.Logger
	// Points to sample; nil: all except nmetrics. The clock is always read, unless
	// OtherClock is set: then another process reads it.
	Points     []*measure.Schema
	OtherClock bool
	// Processes are patterns of those that the point nmetrics_process reports.
	Processes []string
	// Done, if set, is called after all points have been read.
	Done func()
	// Other returns the usage of the other process of the agent; nil, or a nil result: there
	// is none.
	Other func() *Usage

	clock atomic.Pointer[Clock]
	load  *Load
	cost  *Cost
	// failed are points whose last reading failed; a failure is logged once.
	failed map[string]bool
}

// Points are sampled by default.
func Points() []*measure.Schema {
	return []*measure.Schema{&measure.Host, &measure.Interfaces, &measure.Clock, &measure.Agent}
}

// Run samples immediately and then at each interval, until the context ends; then it
// returns nil. A failure is logged, and the point is read again at the next interval.
func (s *Sampler) Run(ctx context.Context) error {
	ticks := time.NewTicker(cmp.Or(s.Interval, 10*time.Second))
	defer ticks.Stop()
	for ctx.Err() == nil {
		s.sample(ctx)
		if s.Done != nil && ctx.Err() == nil {
			s.Done()
		}
		select {
		case <-ctx.Done():
		case <-ticks.C:
		}
	}
	return nil
}

// Clock is the last reading of the clock; the zero value before the first.
func (s *Sampler) Clock() session.Clock {
	if c := s.clock.Load(); c != nil {
		return c.Session()
	}
	return session.Clock{}
}

func (s *Sampler) sample(ctx context.Context) {
	points := s.Points
	if points == nil {
		points = Points()
	}
	for _, point := range []struct {
		schema *measure.Schema
		read   func(context.Context) ([]measure.Sample, error)
	}{
		{&measure.Clock, s.readClock},
		{&measure.Host, s.readHost},
		{&measure.Interfaces, func(context.Context) ([]measure.Sample, error) { return ReadInterfaces() }},
		{&measure.Agent, s.readAgent},
		{&NmetricsCPU, func(context.Context) ([]measure.Sample, error) { return ReadNmetricsCPU() }},
		{&NmetricsMemory, func(context.Context) ([]measure.Sample, error) { return ReadNmetricsMemory() }},
		{&NmetricsNet, func(context.Context) ([]measure.Sample, error) { return ReadNmetricsNet() }},
		{&NmetricsProcess, func(context.Context) ([]measure.Sample, error) { return ReadNmetricsProcesses(s.Processes) }},
	} {
		chosen := slices.Contains(points, point.schema)
		if point.schema == &measure.Clock {
			if s.OtherClock {
				continue
			}
		} else if !chosen {
			continue
		}
		samples, err := point.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if chosen && len(samples) > 0 {
			err = errors.Join(err, s.Sink(point.schema, samples))
		}
		s.note(point.schema.Name, err)
	}
}

// note logs the first of consecutive failures.
func (s *Sampler) note(point string, err error) {
	if err == nil {
		delete(s.failed, point)
		return
	}
	if s.failed == nil {
		s.failed = map[string]bool{}
	}
	if !s.failed[point] && s.Log != nil {
		s.Log.Warn("sample point", "point", point, "error", err)
	}
	s.failed[point] = true
}

func (s *Sampler) readClock(ctx context.Context) ([]measure.Sample, error) {
	c, err := ReadClock(ctx, s.clock.Load())
	if err != nil {
		return nil, err
	}
	s.clock.Store(c)
	return c.Samples(), nil
}

func (s *Sampler) readHost(context.Context) ([]measure.Sample, error) {
	l, err := ReadHost(s.load)
	if err != nil {
		return nil, err
	}
	s.load = l
	return l.Samples(), nil
}

func (s *Sampler) readAgent(context.Context) ([]measure.Sample, error) {
	if s.Spool == nil {
		return nil, errors.New("read agent: no spool")
	}
	var probe *hook.Cost
	if s.Probe != nil {
		probe = s.Probe()
	}
	var other *Usage
	if s.Other != nil {
		other = s.Other()
	}
	c, err := ReadAgent(s.cost, s.Spool(), probe, other)
	if err != nil {
		return nil, err
	}
	s.cost = c
	return c.Samples(), nil
}
