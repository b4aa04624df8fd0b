// Package routerreport runs a router profile of package runner by hand (seed 3), without a
// server: it shows what is measured while traffic flows, and summarises it at the end: as
// text, as JSON, as one CSV line per packet, as an HTML page.
package routerreport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"pillion.dev/agent/runner"
	"pillion.dev/agent/view"
	"pillion.dev/internal/outfile"
	"pillion.dev/probe/router"
)

// Options configure Run.
type Options struct {
	// Namespace is the open network namespace of the router; nil for the caller's. Name is
	// its name.
	Namespace *os.File
	Name      string
	router.Options
	// Filter is Options.Match as the user entered it.
	Filter string
	// Duration of the profile; 0 until the context ends.
	Duration time.Duration
	Interval time.Duration
	// RecordFile is where a record of each packet goes, Page the HTML file for the report, which Draw writes; empty
	// for none.
	RecordFile outfile.RecordsFile
	Page       outfile.Path
	Draw       Draw
	JSON       bool
	// Warnings receives hints and warnings.
	Warnings io.Writer
}

// run is one profile.
type run struct {
	options Options
	probe   *runner.Router
	view    profileView
	records *outfile.Records
	lost    error // records that their reader did not get
	breaks  longest
	series  series
	begin   time.Time
	length  time.Duration
	last    router.Snapshot // the previous one
	costs   counting
	shown   time.Duration // the part of costs.sum in earlier intervals
}

// Run profiles the router until the duration is over or the context ends.
func Run(ctx context.Context, options Options, out io.Writer) error {
	if options.Namespace != nil {
		options.Netns = int(options.Namespace.Fd())
	}
	options.Records = options.RecordFile.Path != ""
	wantCosts := options.Costs
	options.Costs = false // not from the start: see counting
	where, err := survey(options)
	if err != nil {
		return err
	}
	page, err := createPage(ctx, options.Page)
	if err != nil {
		return err
	}
	defer page.close()
	r := &run{options: options, view: profileView{view.View{Out: out, JSON: options.JSON}, options}}
	if r.records, err = options.RecordFile.Open(recordColumns...); err != nil {
		return err
	}
	defer r.records.Close()
	names := where.names()
	if r.probe, err = runner.OpenRouter(runner.LocalRouter{
		Options: options.Options, Interval: options.Interval, Read: r.interval, CoffeeBreak: r.breaks.add,
		Record: func(record router.Record) error {
			addRecord(r.records, names, record)
			return nil
		},
	}); err != nil {
		return err
	}
	defer r.probe.Close()
	if wantCosts {
		r.costs.probe, r.costs.part = r.probe, options.Interval/countPart
	}
	if err := r.watch(ctx); err != nil {
		return err
	}
	summary, err := r.end()
	if err != nil {
		return err
	}
	summary.Environment = where
	r.warn(summary)
	return errors.Join(r.lost, r.view.Summary(summary, "%s", summaryText(summary)), page.write(options.Draw, summary, r.series))
}

// watch shows each interval until the end.
func (r *run) watch(ctx context.Context) (err error) {
	if r.options.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.options.Duration)
		defer cancel()
	}
	if r.last, err = r.probe.Snapshot(); err != nil {
		return err
	}
	r.begin = r.last.Time
	if err := errors.Join(r.view.ready(), r.costs.begin()); err != nil {
		return err
	}
	r.probe.Run(ctx)
	r.length = time.Since(r.begin)
	return errors.Join(r.probe.Stop(), r.costs.end())
}

// interval shows the profile at the end of an interval.
func (r *run) interval(now router.Snapshot) error {
	if err := r.costs.end(); err != nil { // the machine was too busy to do so in time
		return err
	}
	i := r.since(now)
	if r.records != nil {
		i.RecordsLost = r.probe.RecordsLost()
	}
	r.last = now
	if r.isLong(i.length) {
		if err := r.series.add(i); err != nil {
			return err
		}
	}
	return errors.Join(r.view.interval(i), r.costs.begin())
}

// isLong reports whether the charts may show an interval like a whole one. The first and
// the last are shorter: intervals end at multiples of their length.
func (r *run) isLong(length time.Duration) bool { return length > r.options.Interval/2 }

func (r *run) since(now router.Snapshot) Interval {
	counted := r.costs.sum - r.shown
	r.shown = r.costs.sum
	return newInterval(r.begin, r.last, now, counted)
}

// end summarises the profile.
func (r *run) end() (Summary, error) {
	now, err := r.probe.Snapshot()
	if err != nil {
		return Summary{}, err
	}
	if r.isLong(r.length-r.last.Time.Sub(r.begin)) || len(r.series.intervals) == 0 {
		if err := r.series.add(r.since(now)); err != nil {
			return Summary{}, err
		}
	}
	s := newSummary(r.begin, r.length, r.costs.sum, now)
	s.Breaks.Longest = r.breaks
	if r.records != nil {
		count, lost := r.records.Close()
		count.Lost += r.probe.RecordsLost()
		s.Records, r.lost = &count, lost
	}
	return s, err
}

// warn prints hints about what limits the result.
func (r *run) warn(s Summary) {
	if r.options.Warnings == nil {
		return
	}
	if s.Forwarded == 0 {
		fmt.Fprintln(r.options.Warnings, "hint:", s.Environment.idle())
	}
	if s.Records != nil && s.Records.Lost > 0 {
		fmt.Fprintf(r.options.Warnings, "hint: %d records were dropped: raise --record-bytes, or reduce them with --sampling or --filter\n", s.Records.Lost)
	}
}
