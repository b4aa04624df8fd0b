package loader

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pillion.dev/agent/runner"
	"pillion.dev/measure"
)

// fakeCapturer reports one row and waits.
type fakeCapturer struct{ interval time.Duration }

var fakeRow = &measure.Schema{Name: "fake", Fields: []measure.Field{measure.TimeField}}

func (fakeCapturer) Check(c Capture) error {
	if c.Filter != "" {
		return errors.New("bad filter")
	}
	return nil
}

func (fakeCapturer) Points() []*measure.Schema { return []*measure.Schema{fakeRow} }

func (f *fakeCapturer) Run(ctx context.Context, _ Capture, interval time.Duration, sink runner.Sink) error {
	f.interval = interval
	sink(fakeRow, measure.Sample{measure.TimeValue(time.Now())})
	<-ctx.Done()
	return ctx.Err()
}

// TestCapturer: a program without code that captures refuses captures; a registered one runs.
func TestCapturer(t *testing.T) {
	before := capturer
	t.Cleanup(func() { capturer = before })
	capturer = nil
	if err := (Capture{Device: "lo"}).Check(); !errors.Is(err, errCapturer) || len(CapturePoints([]Capture{{}})) != 0 {
		t.Errorf("without a capturer: %v", err)
	}
	fake := &fakeCapturer{}
	RegisterCapturer(fake)
	if err := (Capture{Device: "lo", Filter: "x"}).Check(); err == nil || !strings.Contains(err.Error(), `device "lo": bad filter`) {
		t.Errorf("got %v", err)
	}
	if points := CapturePoints([]Capture{{}}); len(points) != 1 || len(CapturePoints(nil)) != 0 {
		t.Errorf("points %v", points)
	}
	kept := newShelf()
	l := &Loader{options: Options{Sink: kept.put, Interval: time.Hour}, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.captureOn(ctx, Capture{Device: "lo"})
	}()
	<-kept.came
	cancel()
	<-ended
	if kept.of("fake") != 1 || fake.interval != time.Hour {
		t.Errorf("%d rows, interval %v", kept.of("fake"), fake.interval)
	}
}
