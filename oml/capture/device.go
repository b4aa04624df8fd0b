package capture

import (
	"context"
	"time"

	"pillion.dev/agent/loader"
	"pillion.dev/agent/runner"
	"pillion.dev/measure"
)

// Devices captures on the devices that the configuration of an agent names. It is a loader.Capturer.
type Devices struct{}

func options(c loader.Capture) Options {
	return Options{Device: c.Device, Filter: c.Filter, Snap: c.Snap, Promiscuous: c.Promiscuous}
}

// Check implements loader.Capturer.
func (Devices) Check(c loader.Capture) error { return options(c).Check() }

// Points implements loader.Capturer.
func (Devices) Points() []*measure.Schema { return append(Points(), &Counts) }

// Run implements loader.Capturer.
func (Devices) Run(ctx context.Context, c loader.Capture, interval time.Duration, sink runner.Sink) error {
	o := options(c)
	o.Sink, o.Every = Sink(sink), interval
	o.Tallied = func(t Tally) { sink(&Counts, t.Sample(time.Now(), c.Device)) }
	_, err := Run(ctx, o)
	return err
}
