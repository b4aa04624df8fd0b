// Package routerreport runs the router profile by hand (seed 3): it opens the probe, shows
// what it measures while traffic flows, and at the end sums it up: as text, as JSON,
// as one line a packet, as a page of HTML.
//
// In the flow it stands beside the modules of sessions: it reads package probe/router
// as they do, but needs no server, and keeps nothing but what its user asked for.
package routerreport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"pillion.dev/probe/hook"
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
	// RecordFile is the CSV file for packets, Page the HTML file for the report. Empty for
	// none.
	RecordFile, Page string
	JSON             bool
	// Complaints takes warnings.
	Complaints io.Writer
}

// settleTime is how long the packets in flight at the end may take to leave.
const settleTime = time.Second

// run is one profile.
type run struct {
	options Options
	probe   *router.Router
	view    view
	records *recordFile
	breaks  breakList
	series  series
	begin   time.Time
	last    router.Snapshot // the previous one
	costs   counting
	shown   time.Duration // the part of costs.sum in earlier intervals
}

// Run profiles the router until the duration is over or the context ends.
func Run(ctx context.Context, options Options, out io.Writer) error {
	if err := hook.NeedRoot(); err != nil {
		return err
	}
	if options.Namespace != nil {
		options.Netns = int(options.Namespace.Fd())
	}
	options.Records = options.RecordFile != ""
	wantCosts := options.Costs
	options.Costs = false // not from the start: see counting
	where, err := survey(options)
	if err != nil {
		return err
	}
	page, err := createPage(options.Page)
	if err != nil {
		return err
	}
	defer page.close()
	r := &run{options: options, view: newView(out, options)}
	if options.Records {
		if r.records, err = createRecordFile(options.RecordFile, where.names()); err != nil {
			return err
		}
		defer r.records.close()
	}
	if r.probe, err = router.Open(options.Options); err != nil {
		return err
	}
	defer r.probe.Close()
	if wantCosts {
		r.costs.probe = r.probe
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
	return errors.Join(r.view.summary(summary), page.write(newReport(summary, &r.series)))
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
	var failed <-chan error
	if r.records != nil {
		failed = r.records.follow(r.probe)
	}
	r.breaks.follow(r.probe)
	if err := r.view.ready(); err != nil {
		return err
	}
	ticks := time.NewTicker(r.options.Interval)
	defer ticks.Stop()
	counted := time.NewTimer(r.options.Interval / countPart)
	defer counted.Stop()
	if err := r.costs.begin(); err != nil {
		return err
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return r.costs.end()
		case err := <-failed:
			return err
		case <-counted.C:
			err = r.costs.end()
		case <-ticks.C:
			if err = r.interval(); err == nil {
				err = r.costs.begin()
			}
			counted.Reset(r.options.Interval / countPart)
		}
		if err != nil {
			return err
		}
	}
}

func (r *run) interval() error {
	if err := r.costs.end(); err != nil { // the machine was too busy to do so in time
		return err
	}
	now, err := r.probe.Snapshot()
	if err != nil {
		return err
	}
	i := newInterval(r.begin, r.last, now, r.costs.sum-r.shown)
	r.shown = r.costs.sum
	if r.records != nil {
		i.RecordsLost = r.probe.Lost()
	}
	r.last = now
	r.series.add(i)
	return r.view.interval(i)
}

// end lets the packets in flight leave, so that the account is of whole packets, and
// reads for the last time.
func (r *run) end() (Summary, error) {
	length := time.Since(r.begin)
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	if err := r.probe.Settle(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return Summary{}, err
	}
	now, err := r.probe.Snapshot()
	if err != nil {
		return Summary{}, err
	}
	// A short rest would stand in the charts like a whole interval.
	if rest := length - r.last.Time.Sub(r.begin); rest > r.options.Interval/2 || len(r.series.points) == 0 {
		r.series.add(newInterval(r.begin, r.last, now, r.costs.sum-r.shown))
	}
	s := newSummary(r.begin, length, r.costs.sum, now)
	if s.Breaks.Longest, err = r.breaks.finish(); err != nil {
		return s, err
	}
	if r.records != nil {
		err = r.records.finish()
		s.Records = &RecordCount{Written: r.records.written, Lost: r.probe.Lost()}
	}
	return s, err
}

// warn prints hints about what limits the result.
func (r *run) warn(s Summary) {
	if r.options.Complaints == nil {
		return
	}
	if s.Forwarded == 0 {
		fmt.Fprintln(r.options.Complaints, "hint:", s.Environment.idle())
	}
	if s.Records != nil && s.Records.Lost > 0 {
		fmt.Fprintf(r.options.Complaints, "hint: %d records were dropped: raise --record-bytes, or reduce them with --sampling or --filter\n", s.Records.Lost)
	}
}
