package agent

import (
	"context"
	"errors"
	"io"

	"pillion.dev/agent/runner"
	"pillion.dev/agent/view"
	"pillion.dev/internal/outfile"
	"pillion.dev/probe/destination"
)

// DestinationOptions configure RunDestination.
type DestinationOptions struct {
	runner.LocalDestination
	// RecordFile is where a record of each packet goes.
	RecordFile outfile.RecordsFile
	JSON       bool
}

// RunDestination reads marks until the context ends: it prints rows at every
// interval, and the counters at the end.
func RunDestination(ctx context.Context, options DestinationOptions, out io.Writer) (err error) {
	v := deviceView{view.View{Out: out, JSON: options.JSON}}
	var records *outfile.Records
	options.Rows, options.Hidden = v.rows, v.hidden
	options.Records = options.RecordFile.Path != ""
	options.Record = func(r *destination.Record) error { return addArrived(records, r) }
	probe, err := runner.OpenDestination(options.LocalDestination)
	if err != nil {
		return err
	}
	defer probe.Close()
	// Not before the device is ours: another process may be writing it.
	if records, err = options.RecordFile.Open(arrivedColumns...); err != nil {
		return err
	}
	defer func() { _, failed := records.Close(); err = errors.Join(err, failed) }()
	if err := v.readyDestination(probe.Device(), options.Peers.Prefixes()); err != nil {
		return err
	}
	err = errors.Join(probe.Run(ctx), probe.Stop())
	tally, failed := probe.Tally()
	if failed != nil {
		return errors.Join(err, failed)
	}
	var traces *destination.TraceTally
	if options.Traces {
		counted, failed := probe.TraceTally()
		if failed != nil {
			return errors.Join(err, failed)
		}
		traces = &counted
	}
	return errors.Join(err, v.destinationSummary(tally, traces))
}
