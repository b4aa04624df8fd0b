package sender

import (
	"fmt"
	"strconv"
	"time"

	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/model"
	"pillion.dev/send/schedule"
	"pillion.dev/send/stream"
)

// fitLimit is how many packets of a flow the test of fit looks at: the first ones.
const fitLimit = 1_000_000

// traffic is a model that is sent, and what is needed to test its fit.
type traffic struct {
	model *model.Model
	flows []realised
	start int64
}

// realised is a flow as drawn, and the departures of its packets; 0: not sent.
type realised struct {
	drawn    []model.Packet
	departed []int64
}

// fit is one property of one flow, as drawn and as sent.
type fit struct {
	Flow  int       `json:"flow"`
	Drawn model.Fit `json:"drawn"`
	Sent  model.Fit `json:"sent"`
}

// plan limits the model to what can be sent, and gives each flow a source port of
// its own.
func (t *traffic) plan(options *Options, flows int) error {
	base := options.Flows[""]
	least, most := frame.MinBytes, frame.MaxBytes
	if options.Stream {
		least, most = 1, stream.MaxBytes
	} else if base != nil {
		resolved := *base
		if !resolved.Source.IsValid() { // of the same family, which is all that matters
			resolved.Source = resolved.Destination
		}
		overhead, err := resolved.Overhead()
		if err != nil {
			return err
		}
		least = max(least, overhead)
	}
	if err := t.model.LimitSize(least, most); err != nil {
		return fmt.Errorf("%w: model: %w", schedule.ErrPattern, err)
	}
	t.flows = make([]realised, flows)
	for i := range flows {
		if base != nil && i > 0 {
			own := *base
			own.SourcePort += uint16(i)
			options.Flows[flowName(i)] = &own
		}
	}
	options.Schedule = schedule.Traffic(t.model, flows, flowName, t.draw)
	return nil
}

// flowName of a flow by number; the first is the default one.
func flowName(i int) string {
	if i == 0 {
		return ""
	}
	return strconv.Itoa(i + 1)
}

func (t *traffic) draw(flow int, p model.Packet) {
	if f := &t.flows[flow]; len(f.drawn) < fitLimit {
		f.drawn = append(f.drawn, p)
		f.departed = append(f.departed, 0)
	}
}

// sent takes what became of a packet. It may be on another goroutine than draw only if
// that has returned.
func (t *traffic) sent(r dispatch.Record) {
	f := &t.flows[r.Train]
	if int(r.Number) < len(f.departed) && r.Fate == dispatch.Sent {
		f.departed[r.Number] = r.Departure()
	}
	if t.start == 0 && r.Number == 0 {
		t.start = r.Intended - int64(f.drawn[0].Due)
	}
}

// fits tests the intervals and sizes of each flow, as drawn and as sent. The interval of a
// packet behind one that was not sent is left out.
func (t *traffic) fits() (all []fit) {
	for i, f := range t.flows {
		var sent []model.Packet
		last := t.start
		for n, at := range f.departed {
			if at != 0 && last != 0 {
				p := f.drawn[n]
				p.Interval, p.Due = time.Duration(at-last), time.Duration(at-t.start)
				sent = append(sent, p)
			}
			last = at
		}
		drawn, realised := t.model.Fit(f.drawn, model.Options{}), t.model.Fit(sent, model.Options{Tolerance: fitTolerance})
		for n := range min(len(drawn), len(realised)) {
			all = append(all, fit{i, drawn[n], realised[n]})
		}
	}
	return all
}

// fitTolerance in nanoseconds is the accuracy with which intervals of discrete
// distributions are sent.
const fitTolerance = 20_000

func (f fit) String() string {
	return fmt.Sprintf("flow %d, %s %s: drawn %s (p %.3f), sent %s (p %.3f), %d packets, %s\n",
		f.Flow+1, f.Drawn.What, f.Drawn.Distribution, f.Drawn.Verdict, f.Drawn.P, f.Sent.Verdict, f.Sent.P, f.Sent.N, f.Sent.Test)
}
