// Package agent runs one probe by hand, without a server: it opens a source or a
// destination of package runner with a local task, and prints what it counts as text,
// JSON or CSV.
//
// Most packages below are parts of the agent that has joined a server: service speaks to the server, and
// loader, with the privileges, runs what it assigns by package runner within the policy of the host;
// spool keeps batches until they are stored, validation tests paths, doctor checks the host, host
// samples it, identity has its certificate, and confine starts and seals the process of service. view
// and report print and deliver what is measured by hand.
package agent

import (
	"context"
	"errors"
	"io"
	"time"

	"pillion.dev/agent/runner"
	"pillion.dev/agent/view"
	"pillion.dev/internal/outfile"
	"pillion.dev/probe/block"
	"pillion.dev/probe/source"
)

const (
	roleSource      = "source"
	roleDestination = "destination"
)

// SourceOptions configure RunSource.
type SourceOptions struct {
	runner.LocalSource
	// Interval between two lines of the live view.
	Interval time.Duration
	// RecordFile is where what each flow has sent in an interval, or a block, goes.
	RecordFile outfile.RecordsFile
	JSON       bool
}

// RunSource marks packets until the context ends, then prints the counters.
func RunSource(ctx context.Context, options SourceOptions, out io.Writer) (err error) {
	v := deviceView{view.View{Out: out, JSON: options.JSON}}
	var records *outfile.Records
	options.Path, options.Hidden, options.Blocks = v.path, v.hidden, v.blocks
	if options.RecordFile.Path != "" {
		options.Sent = func(sent []source.Sent) error { return addSent(records, sent) }
		options.Blocks = func(counts []block.Count) error { return errors.Join(addBlocks(records, counts), v.blocks(counts)) }
	}
	probe, err := runner.OpenSource(options.LocalSource)
	if err != nil {
		return err
	}
	defer probe.Close()
	if records, err = options.RecordFile.Open(sentColumns...); err != nil {
		return err
	}
	defer func() { _, failed := records.Close(); err = errors.Join(err, failed) }()
	go serveChanges(ctx, probe)
	if err := v.readySource(probe.Device(), options); err != nil {
		return err
	}
	err = errors.Join(probe.Run(ctx, options.Interval, func() error {
		tally, err := probe.Tally()
		rounds, failed := probe.Rounds()
		return errors.Join(err, failed, v.source(tally), v.rounds(rounds))
	}), probe.Stop())
	rounds, failed := probe.Rounds()
	err = errors.Join(err, failed, v.rounds(rounds))
	tally, failed := probe.Tally()
	if failed != nil {
		return errors.Join(err, failed)
	}
	return errors.Join(err, v.sourceSummary(tally, probe.Paths()))
}
