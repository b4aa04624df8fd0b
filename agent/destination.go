package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"pillion.dev/internal/clock"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/hook"
)

// DestinationOptions say what RunDestination does.
type DestinationOptions struct {
	Device string
	destination.Settings
	Interval time.Duration
	By       destination.Granularity
	// RecordFile is where records go, as CSV; empty for none.
	RecordFile string
	JSON       bool
}

// RunDestination reads marks until the context ends: rows each interval, and at
// the end what was counted.
func RunDestination(ctx context.Context, options DestinationOptions, out io.Writer) error {
	device, err := claim(options.Device)
	if err != nil {
		return err
	}
	owner, err := hook.Own(roleDestination, device)
	if err != nil {
		return err
	}
	defer owner.Close()
	var records *recordFile
	if options.RecordFile != "" {
		if records, err = createRecordFile(options.RecordFile); err != nil {
			return err
		}
		defer records.close()
		options.Records = true
	}
	probe, err := destination.Open(device, options.Settings)
	if err != nil {
		return err
	}
	defer probe.Close()
	if records != nil {
		records.follow(probe)
	}
	view := destinationView{out: out, json: options.JSON, options: options}
	if err := view.ready(device); err != nil {
		return err
	}
	err = runDestination(ctx, probe, device, options, &view)
	return errors.Join(err, endDestination(probe, records, options, &view))
}

func runDestination(ctx context.Context, probe *destination.Destination, device hook.Device,
	options DestinationOptions, view *destinationView) error {
	ticks := time.NewTicker(options.Interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		if err := probe.FollowClock(); err != nil {
			return err
		}
		if err := showDestination(probe, options.By, view); err != nil {
			return err
		}
		present, err := probe.Present()
		if err == nil && !present {
			err = fmt.Errorf("check device %q: %w", device.Name, errGone)
		}
		if err != nil {
			return err
		}
	}
}

func showDestination(probe *destination.Destination, by destination.Granularity, view *destinationView) error {
	rows, err := probe.Read(by)
	if err != nil {
		return err
	}
	state, err := clock.Read()
	if err != nil {
		return err
	}
	tally, err := probe.Tally()
	if err != nil {
		return err
	}
	return view.interval(rows, tally, state)
}

// endDestination takes the program off first, so that nothing comes after the
// last reading.
func endDestination(probe *destination.Destination, records *recordFile, options DestinationOptions, view *destinationView) error {
	err := probe.Detach()
	err = errors.Join(err, showDestination(probe, options.By, view))
	if records != nil {
		err = errors.Join(err, records.finish())
	}
	tally, e := probe.Tally()
	if e != nil {
		return errors.Join(err, e)
	}
	return errors.Join(err, view.summary(tally))
}
