package pillion

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api"
	"pillion.dev/api/level"
	"pillion.dev/api/pillionv1"
)

type reportCmd struct {
	SLA slaCmd `cmd:"" name:"sla" help:"Report the service levels of a month: availability, delay and loss against targets."`
}

type slaCmd struct {
	Month        month         `required:"" placeholder:"YYYY-MM" help:"Month, in UTC. Of the current month, what has passed."`
	Scope        []string      `sep:"none" placeholder:"SELECTOR" help:"Only the pairs among the agents of a selector (KEY=VALUE, NAME or *), or the pairs SOURCE:DESTINATION. Repeatable; default: all that the token may see."`
	Session      string        `placeholder:"NAME" predictor:"session" help:"Only this session; default: for each pair and day the one with most packets."`
	Availability percentage    `placeholder:"PERCENT" help:"Target: share of the minutes with traffic that are up, such as 99.9%."`
	Outage       percentage    `default:"20%" placeholder:"PERCENT" help:"A minute is down if more than this share of its packets is lost (${default})."`
	Loss         percentage    `placeholder:"PERCENT" help:"Target: largest share of lost packets, such as 0.1%."`
	DelayP50     time.Duration `name:"delay-p50" xor:"delay" placeholder:"TIME" help:"Target: median of the one-way delay, such as 20ms."`
	DelayP90     time.Duration `name:"delay-p90" xor:"delay" placeholder:"TIME" help:"Target: 90th percentile of the one-way delay."`
	DelayP99     time.Duration `name:"delay-p99" xor:"delay" placeholder:"TIME" help:"Target: 99th percentile of the one-way delay."`
	Format       string        `default:"text" enum:"text,csv,html" placeholder:"NAME" help:"text, csv or html (${default})."`
}

// Help has the examples.
func (slaCmd) Help() string {
	return `Each target is met, missed or undecided: undecided if it lies in the interval (95 %) of what was measured, in which delays
include the errors of the clocks. Minutes without traffic count neither as up nor as down. docs/howto/sla.md has the definitions.

Examples:

  pillion report sla --month 2026-11 --delay-p99 20ms --loss 0.1%
  pillion report sla --month 2026-11 --scope customer=acme --availability 99.9% --delay-p99 20ms --loss 0.1% --format html`
}

// month is one on the command line.
type month struct{ time.Time }

// UnmarshalText reads YYYY-MM.
func (m *month) UnmarshalText(text []byte) (err error) {
	m.Time, err = level.ParseMonth(string(text))
	return err
}

// percentage is a share on the command line.
type percentage float64

var percentPattern = regexp.MustCompile(`^[0-9]{1,3}(\.[0-9]{1,9})?%$`)

// UnmarshalText reads a number with %.
func (p *percentage) UnmarshalText(text []byte) error {
	// Not divided by 100, which would make 99.9 % a little more than 0.999.
	share, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "%")+"e-2", 64)
	if err != nil || !percentPattern.Match(text) || share > 1 {
		return fmt.Errorf("read share %.20q: use a percentage, such as 0.1%%", text)
	}
	*p = percentage(share)
	return nil
}

// Run writes a report.
func (c *slaCmd) Run(ctx context.Context, a *app, client *api.Client) error {
	request := &pillionv1.ServiceLevelsRequest{
		From: timestamppb.New(c.Month.Time), To: timestamppb.New(c.Month.AddDate(0, 1, 0)), Scope: c.Scope, Session: c.Session,
		Availability: float64(c.Availability), Outage: float64(c.Outage), Loss: float64(c.Loss), Quantile: 0.99,
	}
	for quantile, target := range map[float64]time.Duration{0.5: c.DelayP50, 0.9: c.DelayP90, 0.99: c.DelayP99} {
		if target != 0 {
			request.Quantile, request.DelayNs = quantile, target.Nanoseconds()
		}
	}
	stream, err := client.Flows.ServiceLevels(ctx, request)
	if err != nil {
		return failed("report service levels", err)
	}
	defer stream.Close()
	report := level.Report{Request: request}
	for stream.Receive() {
		report.Add(stream.Msg())
	}
	if err := stream.Err(); err != nil {
		return failed("report service levels", err)
	}
	if seen := report.Seen(); seen != "" {
		a.note("limited to what the token sees: %s", seen)
	}
	if report.Found > len(report.Levels) {
		a.note("%d of %d pairs: those with most packets", len(report.Levels), report.Found)
	}
	switch {
	case c.Format == "html":
		return report.WriteHTML(a.out)
	case a.format == "csv" || a.format == "table" && c.Format == "csv":
		return report.WriteCSV(a.out)
	}
	return a.show(messageList(report.Levels), nil, func(w io.Writer) error {
		if err := slaSummary(&report).write(w, a.color); err != nil {
			return err
		}
		a.note("until %s UTC; intervals of 95 %%; %d met, %d missed, %d undecided", report.Until.Format(time.DateTime),
			report.Count("met"), report.Count("missed"), report.Count("undecided"))
		return nil
	})
}

// slaSummary is the table for people: each figure with its interval and verdict.
func slaSummary(r *level.Report) *table {
	q := fmt.Sprintf("P%.0f", 100*r.Request.Quantile)
	t := newTable("source", "destination", ">availability", ">down", ">silent", ">delay="+q, "interval", ">loss", "interval", ">packets")
	judged := func(shown, verdict string) cell { return text(strings.TrimSpace(shown + " " + verdict)) }
	for _, l := range r.Levels {
		t.add(text(l.Source), text(l.Destination), judged(level.Share(l.Availability, 3), l.AvailabilityVerdict),
			text(fmt.Sprintf("%d min", l.Down)), text(fmt.Sprintf("%d min", l.Silent)),
			judged(level.Delay(l.DelayNs), l.DelayVerdict), text(level.Interval(level.Delay(l.DelayLowNs), level.Delay(l.DelayHighNs))),
			judged(level.Share(l.Loss, 4), l.LossVerdict), text(level.Interval(level.Share(l.LossLow, 4), level.Share(l.LossHigh, 4))), number(l.Expected))
	}
	return t
}
