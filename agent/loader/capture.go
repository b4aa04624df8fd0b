package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"pillion.dev/agent/runner"
	"pillion.dev/measure"
)

// Capture is a device whose packet headers are reported.
type Capture struct {
	Device string `yaml:"device"`
	// Filter in a subset of the tcpdump filter language; empty for all packets.
	Filter string `yaml:"filter"`
	// Snap is the snapshot length, bytes; default 256.
	Snap int `yaml:"snap"`
	// Promiscuous enables promiscuous mode.
	Promiscuous bool `yaml:"promiscuous"`
}

// Capturer captures packet headers.
type Capturer interface {
	// Check reports what is wrong with a capture.
	Check(c Capture) error
	// Points are the streams of the rows that a capture delivers.
	Points() []*measure.Schema
	// Run captures until the context ends or the device goes down, and reports counters once in each
	// interval.
	Run(ctx context.Context, c Capture, interval time.Duration, sink runner.Sink) error
}

var capturer Capturer

// RegisterCapturer adds the code that captures. Without it no capture is valid.
func RegisterCapturer(c Capturer) { capturer = c }

var errCapturer = errors.New("this program cannot capture")

// Check returns an error if the capture is invalid.
func (c Capture) Check() error {
	err := errCapturer
	if capturer != nil {
		err = capturer.Check(c)
	}
	if err != nil {
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
	logged := ""
	for ctx.Err() == nil {
		err := capturer.Run(ctx, c, l.options.Interval, l.options.Sink)
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

// CapturePoints returns the streams of the rows that captures deliver; none without captures.
func CapturePoints(captures []Capture) []*measure.Schema {
	if len(captures) == 0 || capturer == nil {
		return nil
	}
	return capturer.Points()
}
