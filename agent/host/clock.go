// Package host reads the points that are about the host and the agent itself:
// clock, host, interfaces, agent. Each reading gives samples of the schema of
// that name in measure, and what the agent's state tells the server.
//
// It sets nothing on the host. In the flow it stands beside the probes: a
// Sampler gives its samples to the agent's streams.
package host

import (
	"context"
	"errors"
	"time"

	"pillion.dev/internal/clock"
	"pillion.dev/measure"
	"pillion.dev/session"
)

// What disciplines a clock.
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
	// Reference is what the daemon follows; empty where that is not known.
	Reference string
	// Step is the clock's jump since the reading before.
	Step time.Duration
	base clock.Base
}

// ReadClock reads the kernel's account and asks the daemon that disciplines the
// clock, by its own tool: chronyc and pmc have a documented output, whereas the
// daemons' control protocols change with their versions. A daemon that does not
// answer is as none. Without a previous reading there is no step.
func ReadClock(ctx context.Context, previous *Clock) (*Clock, error) {
	state, err := clock.Read()
	base, baseErr := clock.ReadBase()
	if err := errors.Join(err, baseErr); err != nil {
		return nil, err
	}
	c := &Clock{Time: time.Now(), State: state, By: byKernel, base: base}
	if previous != nil {
		c.Step = base.StepSince(previous.base)
	}
	if daemon, ok := askChrony(ctx); ok {
		c.followChrony(daemon)
	} else if daemon, ok := askPTP(ctx); ok && daemon.present {
		c.followPTP(daemon)
	}
	return c, nil
}

// followChrony takes chrony's account, whose bound is closer than the kernel's.
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

// followPTP takes ptp4l's account. It knows no bound, so the kernel's stays.
func (c *Clock) followPTP(s ptpStatus) {
	c.By, c.Reference = byPTP, s.grandmaster
	c.Synchronised = true
	c.Offset = s.offset
	c.EstimatedError = s.offset.Abs()
}

// Samples is the reading as one sample of measure.Clock.
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

// Session is the reading as the agent's state has it.
func (c *Clock) Session() session.Clock {
	return session.Clock{
		Synchronised: c.Synchronised, MaxErrorNs: int64(c.MaxError), OffsetNs: int64(c.Offset), By: c.By,
	}
}
