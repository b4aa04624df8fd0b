// Package tester benchmarks the devices between two interfaces of this host, as testers with
// two ports do (RFC 2544, RFC 8219): it sends frames at exact times (room send), counts those
// that arrive, and searches for the highest load (package send/search).
//
// A trial in which the sender does not offer the load is invalid, and is never counted as loss of
// the device. Both interfaces are of this host, in one network namespace or two, so that
// delays are differences of one clock.
package tester

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"pillion.dev/agent/view"
	"pillion.dev/internal/netns"
	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
)

// Options of a benchmark.
type Options struct {
	// Device sends and Receive receives, each in its network namespace; nil: the caller's.
	Device, Receive             string
	Namespace, ReceiveNamespace *os.File
	Header                      *frame.Header
	// Sizes of the frames in bytes, without their frame check sequence; nil: Sizes.
	Sizes []int
	// MaxRate is the highest rate in bit/s, of frames without their frame check sequence; 0,
	// of back-to-back frames only: as close as possible.
	MaxRate float64
	// Rate, of the latency, in bit/s; 0: the throughput.
	Rate float64
	// Duration of a trial.
	Duration time.Duration
	// Loss is the share of frames that a trial may lose and pass.
	Loss float64
	// Resolution of the result, as a share of it.
	Resolution float64
	// Shortfall is the share of frames that the sender may leave out of a trial that passes.
	Shortfall float64
	// Late is the lateness from which a frame is left out: what a sender that was stopped
	// sends afterwards must not become a burst.
	Late time.Duration
	// Wait is the time without an arrival after which the missing frames are lost.
	Wait time.Duration
	// Step is the share of MaxRate by which the load of the frame-loss benchmark falls.
	Step float64
	// MaxFrames is the longest burst of back-to-back frames; 0: of Duration at MaxRate.
	MaxFrames int
	// Repeat is how many times each result is measured.
	Repeat    int
	Mechanism string
	JSON      bool

	// Progress takes a line for each trial; nil: none.
	Progress io.Writer
}

// Sizes are the frame sizes of RFC 2544 for Ethernet (section 9.1), without the frame check
// sequence of 4 bytes.
var Sizes = []int{60, 124, 252, 508, 1020, 1276, 1514}

var (
	// ErrOptions marks options that contradict each other or are out of range.
	ErrOptions = errors.New("invalid benchmark")
	// ErrPath marks a path on which no frame arrives.
	ErrPath = errors.New("no frame arrived")
)

// mostFrames of a trial: the record of departures and arrivals takes 32 bytes each.
const mostFrames = 1 << 24

// Tester has what the trials of a benchmark share.
type Tester struct {
	Options
	view     view.View
	overhead int // bytes of a frame before its payload
	// Remarks on the results.
	remarks []string
	// trial of the present repetition, for reports.
	benchmark  string
	repetition int
	invalid    string // cause of the last invalid trial

	sender   dispatch.Sender // of the trials so far, which dropLate is the bound of
	dropLate time.Duration
}

// New prepares a benchmark and checks that frames arrive.
func New(ctx context.Context, options Options, out io.Writer) (*Tester, error) {
	t := &Tester{Options: options, view: view.View{Out: out, JSON: options.JSON}}
	err := inside(options.Namespace, func() error { return send.Address(options.Header, options.Device) })
	if err != nil {
		return nil, err
	}
	if t.overhead, err = options.Header.Overhead(); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	if err := t.learn(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close frees what the trials hold.
func (t *Tester) Close() error {
	if t.sender == nil {
		return nil
	}
	return t.sender.Close()
}

// open returns a sender that leaves out frames later than a bound, or none if it is 0.
func (t *Tester) open(dropLate time.Duration) (dispatch.Sender, error) {
	if t.sender != nil && t.dropLate == dropLate {
		return t.sender, nil
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	sender, err := dispatch.Open(dispatch.Options{Device: t.Device, Namespace: t.Namespace, Mechanism: t.Mechanism, NoDriver: true, DropLate: dropLate})
	if err != nil {
		t.sender = nil
		return nil, err
	}
	t.sender, t.dropLate = sender, dropLate
	return sender, nil
}

func inside(namespace *os.File, f func() error) error {
	if namespace == nil {
		return f()
	}
	return netns.DoIn(namespace, f)
}

// check refuses what cannot be measured, and sets the sizes.
func (t *Tester) check() error {
	least := max(frame.MinBytes, t.overhead+frame.PatchBytes)
	if t.Sizes == nil {
		for _, size := range Sizes {
			t.Sizes = append(t.Sizes, max(size, least))
		}
		t.Sizes = slices.Compact(t.Sizes)
		if least > Sizes[0] {
			t.remarks = append(t.remarks, fmt.Sprintf("frames of %d bytes instead of %d: headers and the tag of test frames need them", least, Sizes[0]))
		}
	}
	refuse := func(format string, arguments ...any) error {
		return fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, arguments...))
	}
	for _, size := range t.Sizes {
		if size < least || size > frame.MaxBytes {
			return refuse("frames of %d bytes: must be %d (headers and the tag of test frames) to %d, without the frame check sequence", size, least, frame.MaxBytes)
		}
	}
	switch {
	case t.Duration <= 0 || t.Wait <= 0 || t.Late <= 0:
		return refuse("durations must be greater than 0")
	case t.Repeat < 1:
		return refuse("--repeat must be 1 or more")
	case !(t.Loss >= 0 && t.Loss < 1) || !(t.Shortfall >= 0 && t.Shortfall < 1):
		return refuse("the accepted loss and shortfall must be 0%% or more, and less than 100%%")
	case t.MaxRate < 0 || t.Rate < 0 || t.MaxFrames < 0 || t.MaxFrames > mostFrames:
		return refuse("rates must not be negative, and a burst has at most %d frames", mostFrames)
	}
	for _, rate := range []float64{t.MaxRate, t.Rate} {
		if frames := t.framesOf(rate, slices.Min(t.Sizes)); frames > mostFrames {
			return refuse("a trial of %v would have %.0f frames; at most %d are recorded: shorten it, or lower the rate", t.Duration, frames, mostFrames)
		}
	}
	return nil
}

// framesOf a trial at a rate in bit/s.
func (t *Tester) framesOf(bitsPerSecond float64, size int) float64 {
	return bitsPerSecond / 8 / float64(size) * t.Duration.Seconds()
}

// learn sends frames until they arrive, so that all devices on the path know the addresses
// before the first trial (RFC 2544, section 23).
func (t *Tester) learn(ctx context.Context) error {
	const rounds, frames, rate = 3, 10, 1000
	arrived := 0
	for range rounds {
		trial, err := t.run(ctx, load{size: t.Sizes[0], frames: frames, framesPerSecond: rate, learning: true})
		if err != nil {
			return err
		}
		if trial.Sent == 0 {
			return fmt.Errorf("%w: %s sent none of %d: %s", ErrPath, t.Device, frames, trial.Cause)
		}
		if arrived += int(trial.Received); trial.Received == frames {
			return nil
		}
	}
	if arrived == 0 {
		return fmt.Errorf("%w: %s sent frames to %v, and %s received none", ErrPath, t.Device, t.Header.Destination, t.Receive)
	}
	return nil // a path with loss, which is for the benchmark to say
}
