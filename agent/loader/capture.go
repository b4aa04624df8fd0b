package loader

import (
	"context"
	"fmt"
	"sync"
	"time"

	"pillion.dev/agent/capture"
	"pillion.dev/measure"
)

// Capture is a device whose packet headers are reported.
type Capture struct {
	Device string `yaml:"device"`
	// Filter in the language of package capture; empty for all packets.
	Filter string `yaml:"filter"`
	// Snap is the snapshot length, bytes; default 256.
	Snap int `yaml:"snap"`
	// Promiscuous enables promiscuous mode.
	Promiscuous bool `yaml:"promiscuous"`
}

func (c Capture) options() capture.Options {
	return capture.Options{Device: c.Device, Filter: c.Filter, Snap: c.Snap, Promiscuous: c.Promiscuous}
}

// Check reports what is wrong with it.
func (c Capture) Check() error {
	if err := c.options().Check(); err != nil {
		return fmt.Errorf("capture on device %q: %w", c.Device, err)
	}
	return nil
}

// captureRetry is the pause after a device has disappeared or gone down.
const captureRetry = 5 * time.Second

// capture captures on all devices until the context ends.
func (l *Loader) capture(ctx context.Context) {
	var devices sync.WaitGroup
	for _, c := range l.options.Captures {
		devices.Go(func() { l.captureOn(ctx, c) })
	}
	devices.Wait()
}

func (l *Loader) captureOn(ctx context.Context, c Capture) {
	options := c.options()
	options.Sink, options.Every = capture.Sink(l.options.Sink), l.options.Interval
	options.Tallied = func(t capture.Tally) {
		l.options.Sink(&capture.Counts, t.Sample(time.Now(), c.Device))
	}
	logged := ""
	for ctx.Err() == nil {
		_, err := capture.Run(ctx, options)
		if err != nil && err.Error() != logged {
			logged = err.Error()
			l.log.Warn("capture packets", "device", c.Device, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(captureRetry):
		}
	}
}

// CapturePoints are the points that captures need.
func CapturePoints(captures []Capture) []*measure.Schema {
	if len(captures) == 0 {
		return nil
	}
	return append(capture.Points(), &capture.Counts)
}
