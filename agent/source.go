// Package agent is Pillion on one host: it runs the probes and shows, or passes
// on, what they measure. Run by hand it needs no server: what insmod was to the
// papers.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
)

const (
	roleSource      = "source"
	roleDestination = "destination"
)

// SourceOptions say what RunSource does.
type SourceOptions struct {
	Device string
	source.Settings
	// Lease is how long the program goes on marking without this process;
	// source.Forever for no end.
	Lease time.Duration
	// Interval between two lines of the live view.
	Interval time.Duration
	JSON     bool
}

// RunSource marks packets until the context ends, then writes what was counted.
func RunSource(ctx context.Context, options SourceOptions, out io.Writer) error {
	device, err := claim(options.Device)
	if err != nil {
		return err
	}
	owner, err := hook.Own(roleSource, device)
	if err != nil {
		return err
	}
	defer owner.Close()
	probe, err := source.Open(device, options.Settings)
	if err != nil {
		return err
	}
	defer probe.Close()
	if err := probe.Renew(options.Lease); err != nil {
		return err
	}
	changes := make(chan changeRequest)
	go serveChanges(ctx, owner, changes)
	view := sourceView{out: out, json: options.JSON, options: options}
	if err := view.ready(device); err != nil {
		return err
	}
	err = runSource(ctx, probe, device, options, &view, changes)
	if e := probe.Detach(); e != nil {
		err = errors.Join(err, e)
	}
	if e := probe.Sweep(); e != nil {
		err = errors.Join(err, e)
	}
	tally, e := probe.Tally()
	if e != nil {
		return errors.Join(err, e)
	}
	return errors.Join(err, view.summary(tally))
}

// claim looks at what can go wrong before anything is changed.
func claim(name string) (hook.Device, error) {
	device, err := hook.Find(name)
	if err != nil {
		return hook.Device{}, err
	}
	return device, hook.NeedRoot()
}

// sweepEvery is how often idle flows are looked for.
const sweepEvery = 5 * time.Second

func runSource(ctx context.Context, probe *source.Source, device hook.Device, options SourceOptions,
	view *sourceView, changes <-chan changeRequest) error {
	renew := time.NewTicker(renewal(options.Lease))
	defer renew.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	show := time.NewTicker(options.Interval)
	defer show.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-renew.C:
			err = keepUp(probe, &device, options.Lease)
		case <-sweep.C:
			err = probe.Sweep()
		case <-show.C:
			err = showSource(probe, view)
		case request := <-changes:
			request.answer(probe.Sample(request.Sampling))
		}
		if err != nil {
			return err
		}
	}
}

// renewal leaves room for two failures within a lease.
func renewal(lease time.Duration) time.Duration {
	if lease == source.Forever {
		return time.Second
	}
	return max(min(lease/3, time.Second), time.Millisecond)
}

// errGone ends a probe whose place was taken away under it.
var errGone = errors.New("the program is no longer on the device")

func keepUp(probe *source.Source, device *hook.Device, lease time.Duration) error {
	now, err := hook.Find(device.Name)
	if err != nil {
		return err
	}
	if now.Index != device.Index {
		return fmt.Errorf("follow device %q: it was replaced", device.Name)
	}
	if now.MTU != device.MTU {
		if err := probe.SetMTU(now.MTU); err != nil {
			return err
		}
		*device = now
	}
	present, err := probe.Present()
	if err == nil && !present {
		err = fmt.Errorf("check device %q: %w", device.Name, errGone)
	}
	return errors.Join(err, probe.Renew(lease))
}

func showSource(probe *source.Source, view *sourceView) error {
	if view.json {
		return nil
	}
	tally, err := probe.Tally()
	if err != nil {
		return err
	}
	return view.interval(tally)
}

// ChangeSampling tells the source that runs on the device to sample otherwise.
func ChangeSampling(device string, sampling source.Sampling) error {
	d, err := hook.Find(device)
	if err != nil {
		return err
	}
	connection, err := net.DialUnix("unix", nil, hook.Address(roleSource, d))
	if err != nil {
		return fmt.Errorf("reach source of device %q: %w: %w", device, ErrNotRunning, err)
	}
	defer connection.Close()
	return requestChange(connection, sampling)
}
