package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"pillion.dev/agent/spool"
	"pillion.dev/measure"
	"pillion.dev/session"
)

// Sampler reads every point of this package each interval. Spool and Sink are
// needed.
type Sampler struct {
	// Interval between readings; default 10 s.
	Interval time.Duration
	// Sink takes the samples of one reading of one point.
	Sink func(schema *measure.Schema, samples []measure.Sample) error
	// Spool tells what is held back and what was dropped.
	Spool func() spool.Stats
	// Probe tells what the BPF programs cost; nil, or a nil result: not counted.
	Probe func() *ProbeCost
	Log   *slog.Logger
	// Points chooses them; nil: all but those of nmetrics. The clock is read anyway.
	Points []*measure.Schema

	clock atomic.Pointer[Clock]
	load  *Load
	cost  *Cost
	// failed are points that did not read last time; each is told to the log once.
	failed map[string]bool
}

// Points are those that are sampled where nothing else is chosen.
func Points() []*measure.Schema {
	return []*measure.Schema{&measure.Host, &measure.Interfaces, &measure.Clock, &measure.Agent}
}

// Run samples at once and then each interval, until the context ends; then it
// returns nil. A point that cannot be read is logged and tried again.
func (s *Sampler) Run(ctx context.Context) error {
	interval := s.Interval
	if interval <= 0 {
		interval = 10 * time.Second
	}
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for ctx.Err() == nil {
		s.sample(ctx)
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
	} {
		chosen := slices.Contains(points, point.schema)
		if !chosen && point.schema != &measure.Clock {
			continue
		}
		samples, err := point.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil && chosen && len(samples) > 0 {
			err = s.Sink(point.schema, samples)
		}
		s.tell(point.schema.Name, err)
	}
}

// tell logs a failure when it begins.
func (s *Sampler) tell(point string, err error) {
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
		return nil, errors.New("read agent: no spool is given")
	}
	var probe *ProbeCost
	if s.Probe != nil {
		probe = s.Probe()
	}
	c, err := ReadAgent(s.cost, s.Spool(), probe)
	if err != nil {
		return nil, err
	}
	s.cost = c
	return c.Samples(), nil
}
