package agent

import (
	"context"
	"errors"
	"fmt"
	"os"

	"pillion.dev/agent/report"
	"pillion.dev/cli/agent"
	"pillion.dev/measure"
	"pillion.dev/oml/capture"
)

type captureCmd struct {
	agent.ReportFlags
	Dev         string `placeholder:"DEV" help:"Network interface to capture on; other traffic is not affected."`
	Read        string `placeholder:"FILE" help:"Read a pcap or pcapng file instead of an interface."`
	Filter      string `placeholder:"EXPRESSION" help:"Capture only matching packets, in a subset of the tcpdump filter language: 'udp port 53 or host 10.0.0.1'."`
	Snap        int    `default:"256" placeholder:"BYTES" help:"Bytes of each packet to decode (${default})."`
	Count       uint64 `placeholder:"N" help:"Stop after N packets."`
	Promiscuous bool   `help:"Enable promiscuous mode."`
	JSON        bool   `name:"json" help:"Print JSON, one object per line."`
}

// Run captures until the file ends or it is interrupted.
func (c *captureCmd) Run(ctx context.Context) error {
	options := capture.Options{
		Device: c.Dev, File: c.Read, Filter: c.Filter, Snap: c.Snap, Count: c.Count, Promiscuous: c.Promiscuous,
		Ready: func() { fmt.Fprintln(os.Stderr, "capturing on", c.Dev) },
	}
	if err := options.Check(); err != nil {
		return err
	}
	to := report.View(os.Stdout, c.JSON)
	if c.OML != "" && !c.JSON {
		var err error
		if to, err = c.Open(c.OML, "pcap", capture.Points()); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	options.Sink = func(schema *measure.Schema, sample measure.Sample) {
		if err := to.Put(schema, sample); err != nil {
			cancel(err)
		}
	}
	if c.Read != "" { // a file can wait for a collector, a device cannot
		options.Room = func() error { return to.Room(ctx) }
	}
	tally, err := capture.Run(ctx, options)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	if errors.Is(err, context.Canceled) {
		err = nil // interrupted, which is how it ends
	}
	if err == nil || tally.Seen > 0 {
		fmt.Fprintln(os.Stderr, tally)
		err = errors.Join(err, to.Note("packets", tally.String()))
	}
	return errors.Join(err, agent.Finish(to))
}
