package estimator

import (
	"context"
	"fmt"
	"io"
	"time"

	"pillion.dev/agent/report"
	"pillion.dev/agent/view"
	"pillion.dev/measure"
	"pillion.dev/send/estimate"
)

// Options of a run by hand.
type Options struct {
	Path   Path
	JSON   bool
	Report report.Report // takes the result as a row, if not nil
	// Progress takes a line that is rewritten, if not nil.
	Progress io.Writer
}

// about is what every result says of how it was measured.
type about struct {
	// Layer is what the rates count.
	Layer Layer `json:"layer"`
	// Direction is forward, or round trip if replies were received.
	Direction string   `json:"direction"`
	Arrivals  string   `json:"arrivals"`
	Mechanism string   `json:"mechanism"`
	Remarks   []string `json:"remarks,omitempty"`
	Packets   uint64   `json:"packets_sent"`
	// Unsent trains were not sent entirely and are left out.
	Unsent int `json:"trains_unsent"`
	// Assumptions that samples can contradict; Untested are the others.
	Assumptions []check  `json:"assumptions"`
	Untested    []string `json:"assumed"`
}

// check is an assumption and whether the samples are consistent with it.
type check struct {
	Assumption estimate.Assumption `json:"assumption"`
	Holds      bool                `json:"holds"`
	Detail     string              `json:"detail,omitempty"`
}

func (p *Prober) about(tested []estimate.Assumption, findings []estimate.Finding) about {
	a := about{
		Layer: p.path.Layer, Direction: "forward", Arrivals: p.path.Far.String(), Mechanism: p.sender.Name(),
		Remarks: p.sender.Remarks(), Packets: p.sent, Unsent: p.Unsent, Untested: p.untested(),
	}
	if p.path.Far.Replies {
		a.Direction = "round trip"
	}
	for _, assumption := range tested {
		c := check{Assumption: assumption, Holds: true}
		for _, f := range findings {
			if f.Assumption == assumption {
				if c.Detail != "" {
					c.Detail += "; "
				}
				c.Holds, c.Detail = false, c.Detail+f.Detail
			}
		}
		a.Assumptions = append(a.Assumptions, c)
	}
	return a
}

// untested are assumptions that no sample can contradict.
func (p *Prober) untested() []string {
	list := []string{
		"the queue of the narrowest link is first in, first out",
		"the route did not change",
		"the narrowest link limits the rate of " + p.path.Layer.String(),
	}
	if p.path.Far.Replies {
		list = append(list, "the far end answers each packet at once; the narrower of both directions is measured if replies are as large as packets")
	}
	return list
}

// String says where arrival times come from.
func (f Far) String() string {
	switch {
	case f.Replies:
		return "replies"
	case f.Receiver != "":
		return "receiver at " + f.Receiver
	}
	return "interface " + f.Device
}

// capacityResult is the result of RunCapacity.
type capacityResult struct {
	about
	Capacity estimate.Capacity `json:"capacity"`
	rates    []float64
}

// RunCapacity estimates the capacity and prints it: with JSON a line for each train, too.
func RunCapacity(ctx context.Context, options Options, plan CapacityPlan, out io.Writer) error {
	return options.run(ctx, out, func(p *Prober, v view.View) error {
		c, trains, err := p.Capacity(ctx, plan, options.progress("capacity"))
		if err != nil {
			return err
		}
		options.clear()
		if err := printTrains(v, trains); err != nil {
			return err
		}
		r := capacityResult{p.about(estimate.CapacityAssumptions, c.Findings), c, estimate.PairRates(trains)}
		if options.Report != nil {
			if err := options.Report.Put(&Capacities, capacityRow(time.Now(), &r)); err != nil {
				return err
			}
		}
		return v.Summary(r, "%s", r.text())
	})
}

// Points are all points of the package.
var Points = []*measure.Schema{&Capacities, &Availables, &Hops}

// run opens the path and ends the line of progress.
func (o *Options) run(ctx context.Context, out io.Writer, do func(*Prober, view.View) error) error {
	p, err := Open(ctx, o.Path)
	if err != nil {
		return err
	}
	defer p.Close()
	return do(p, view.View{Out: out, JSON: o.JSON})
}

// progress returns what rewrites the line of progress.
func (o *Options) progress(what string) func(string) {
	return func(text string) {
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "\r\x1b[K%s: %s\r", what, text)
		}
	}
}

// clear removes the line of progress.
func (o *Options) clear() {
	if o.Progress != nil {
		fmt.Fprint(o.Progress, "\r\x1b[K")
	}
}

// trainLine is a train in JSON. Times are of CLOCK_MONOTONIC of the two ends.
type trainLine struct {
	Train    int      `json:"train"`
	Sizes    []int    `json:"bytes"`
	Sent     []int64  `json:"sent_ns"`
	Received []*int64 `json:"received_ns"` // null: lost
}

func printTrains(v view.View, trains []estimate.Train) error {
	if !v.JSON {
		return nil
	}
	for i, t := range trains {
		l := trainLine{Train: i}
		for _, p := range t {
			received := &p.ReceivedNS
			if p.ReceivedNS == 0 {
				received = nil
			}
			l.Sizes, l.Sent, l.Received = append(l.Sizes, p.Size), append(l.Sent, p.SentNS), append(l.Received, received)
		}
		if err := v.Print(l, ""); err != nil {
			return err
		}
	}
	return nil
}
