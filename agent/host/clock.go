// Package host samples the points about the host and the agent itself: clock, host,
// interfaces, agent, and the points of OML's nmetrics. It also describes the host for the
// agent's state.
//
// It changes nothing on the host. A Sampler passes its samples to the agent's streams,
// beside the samples of the probes.
package host

import (
	"context"
	"errors"
	"time"

	"pillion.dev/internal/clock"
	"pillion.dev/measure"
	"pillion.dev/session"
)

// Sources of clock synchronisation.
const (
	byChrony = "chrony"
	byPTP    = "ptp4l"
	byKernel = "kernel"
)

// Clock is one reading of the host's clock.
type Clock struct {
	Time time.Time
	clock.State
	By string
	// Reference is the time source of the daemon; empty if unknown.
	Reference string
	// Step is the clock step since the previous reading.
	Step time.Duration
	base clock.Base
	// steps counts steps of clock.StepMin or more; lastStep is the last one.
	steps    int
	lastStep time.Duration
}

// ReadClock reads the clock state of the kernel and of the synchronisation daemon. It
// runs the daemon's tool: chronyc and pmc have documented output, whereas the control
// protocols change between versions. A daemon that does not answer is ignored. Without a
// previous reading there is no step.
func ReadClock(ctx context.Context, previous *Clock) (*Clock, error) {
	state, err := clock.Read()
	base, baseErr := clock.ReadBase()
	if err := errors.Join(err, baseErr); err != nil {
		return nil, err
	}
	c := &Clock{Time: time.Now(), State: state, By: byKernel, base: base}
	if previous != nil {
		c.Step = base.StepSince(previous.base)
		c.steps, c.lastStep = previous.steps, previous.lastStep
		if c.Step.Abs() >= clock.StepMin {
			c.steps, c.lastStep = c.steps+1, c.Step
		}
	}
	if daemon, ok := askChrony(ctx); ok {
		c.followChrony(daemon)
	} else if daemon, ok := askPTP(ctx); ok && daemon.present {
		c.followPTP(daemon)
	}
	return c, nil
}

// followChrony uses chrony's state, whose error bound is tighter than the kernel's.
func (c *Clock) followChrony(t chronyTracking) {
	c.By, c.Reference = byChrony, t.reference
	c.Synchronised = t.synchronised
	c.Offset = t.lastOffset
	c.FrequencyPPM = t.frequencyPPM
	if t.synchronised {
		c.MaxError = t.bound()
		c.EstimatedError = t.rmsOffset
	}
}

// followPTP uses ptp4l's state. It has no error bound, so the kernel's remains.
func (c *Clock) followPTP(s ptpStatus) {
	c.By, c.Reference = byPTP, s.grandmaster
	c.Synchronised = true
	c.Offset = s.offset
	c.EstimatedError = s.offset.Abs()
}

// Samples is one sample of measure.Clock.
func (c *Clock) Samples() []measure.Sample {
	reference := measure.Value{}
	if c.Reference != "" {
		reference = measure.StringValue(c.Reference)
	}
	return []measure.Sample{{
		measure.TimeValue(c.Time),
		measure.BoolValue(c.Synchronised),
		measure.DurationValue(c.Offset),
		measure.DurationValue(c.MaxError),
		measure.DurationValue(c.EstimatedError),
		measure.Float64Value(c.FrequencyPPM),
		measure.Int32Value(int32(c.TAIOffset / time.Second)),
		measure.StringValue(c.By),
		reference,
		measure.DurationValue(c.Step),
	}}
}

// Session is the form used in the agent's state.
func (c *Clock) Session() session.Clock {
	return session.Clock{
		Synchronised: c.Synchronised, MaxErrorNs: int64(c.MaxError), OffsetNs: int64(c.Offset), By: c.By,
		Steps: c.steps, StepNs: int64(c.lastStep),
	}
}
