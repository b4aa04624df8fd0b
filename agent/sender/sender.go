// Package sender runs the sender by hand, without a server: it opens the device's
// namespace, resolves the destination, sends a schedule and prints what became of it.
package sender

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"pillion.dev/agent/view"
	"pillion.dev/internal/netns"
	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// Options of a run.
type Options struct {
	Device    string
	Namespace *os.File // nil: the caller's
	Header    *frame.Header
	Schedule  schedule.Schedule
	Late      time.Duration // bound from which a packet counts as late
	JSON      bool

	Mechanism  string
	Sequential bool
	Lead       time.Duration
	DropLate   time.Duration
	NoDriver   bool
}

// line is a packet in JSON. Times are of CLOCK_MONOTONIC.
type line struct {
	Train    uint32 `json:"train"`
	Number   uint32 `json:"number"`
	Intended int64  `json:"intended_ns"`
	Handed   int64  `json:"handed_ns,omitempty"`
	Driver   int64  `json:"driver_ns,omitempty"`
	Late     bool   `json:"late"`
	Fate     string `json:"fate,omitempty"` // unless sent
	Error    string `json:"error,omitempty"`
}

// summary is the last line.
type summary struct {
	*send.Account
	Mechanism string   `json:"mechanism"`
	Mode      string   `json:"mode"`
	Remarks   []string `json:"remarks,omitempty"`
}

// Run sends the schedule and prints the result: with JSON a line for each packet.
func Run(ctx context.Context, options Options, out io.Writer) error {
	resolve := func() error { return send.Address(options.Header, options.Device) }
	if options.Namespace != nil {
		if err := netns.DoIn(options.Namespace, resolve); err != nil {
			return err
		}
	} else if err := resolve(); err != nil {
		return err
	}
	sender, err := dispatch.Open(dispatch.Options{
		Device: options.Device, Namespace: options.Namespace, Mechanism: options.Mechanism, Sequential: options.Sequential,
		Lead: options.Lead, DropLate: options.DropLate, NoDriver: options.NoDriver,
	})
	if err != nil {
		return err
	}
	defer sender.Close()
	v := view.View{Out: out, JSON: options.JSON}
	account := send.NewAccount(options.Late)
	job := send.Job{Schedule: options.Schedule, Headers: map[string]*frame.Header{"": options.Header}}
	var printed error
	failed := send.Run(ctx, sender, job, func(r dispatch.Record) {
		late := account.Add(r)
		if options.JSON && printed == nil {
			printed = v.Print(packet(r, late), "")
		}
	})
	account.Close()
	s := summary{account, sender.Name(), mode(options), sender.Remarks()}
	return errors.Join(failed, printed, v.Summary(s, "%s", table(&s)))
}

func mode(options Options) string {
	if options.Sequential {
		return "sequential"
	}
	if options.Lead > 0 {
		return "on the fly, " + options.Lead.String() + " ahead"
	}
	return "initial"
}

func packet(r dispatch.Record, late bool) line {
	l := line{Train: r.Train, Number: r.Number, Intended: r.Intended, Handed: r.Handed, Driver: r.Driver, Late: late}
	if r.Fate != dispatch.Sent {
		l.Fate = r.Fate.String()
	}
	if r.Error != nil {
		l.Error = r.Error.Error()
	}
	return l
}

func table(s *summary) string {
	text := fmt.Sprintf("mechanism %s (%s)\nscheduled %d = sent %d + late-dropped %d + cancelled %d + failed %d; %d of the sent were late\n",
		s.Mechanism, s.Mode, s.Scheduled, s.Sent, s.LateDropped, s.Cancelled, s.Failed, s.Late)
	for cause, n := range s.Failures {
		text += fmt.Sprintf("  failed %d: %s\n", n, cause)
	}
	if s.Sent > 0 {
		text += fmt.Sprintf("%-24s %10s %10s %10s\n", "microseconds", "p50", "p99", "max")
		row := func(name string, d send.Spread) string {
			return fmt.Sprintf("%-24s %10.2f %10.2f %10.2f\n", name, d.P50/1e3, d.P99/1e3, d.Max/1e3)
		}
		text += row("departure behind due", s.Lateness) + row("interdeparture error", s.Interdeparture)
	}
	if s.BitsPerSecond > 0 {
		text += fmt.Sprintf("rate %.4f Mbit/s", s.BitsPerSecond/1e6)
		if s.Asked > 0 {
			text += fmt.Sprintf(", %+.3f %% of the %.4f Mbit/s asked for", (s.BitsPerSecond/s.Asked-1)*100, s.Asked/1e6)
		}
		text += "\n"
	}
	for _, r := range s.Remarks {
		text += "note: " + r + "\n"
	}
	return text
}
