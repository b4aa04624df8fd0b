package pillion

import (
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api"
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
include the errors of the clocks. Minutes without traffic count neither as up nor as down. docs/sla.md has the definitions.

Examples:

  pillion report sla --month 2026-11 --delay-p99 20ms --loss 0.1%
  pillion report sla --month 2026-11 --scope customer=acme --availability 99.9% --delay-p99 20ms --loss 0.1% --format html`
}

// month is one on the command line.
type month struct{ time.Time }

// UnmarshalText reads YYYY-MM.
func (m *month) UnmarshalText(text []byte) (err error) {
	if m.Time, err = time.Parse("2006-01", string(text)); err != nil || m.Year() < 1970 {
		return fmt.Errorf("read month %.20q: use YYYY-MM, such as 2026-11", text)
	}
	return nil
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
	r := slaReport{Request: request, Month: c.Month.Format("January 2006"), Scope: strings.Join(c.Scope, ", ")}
	for stream.Receive() {
		if level := stream.Msg().GetLevel(); level != nil {
			r.Levels = append(r.Levels, level)
		}
		r.Until, r.Found = stream.Msg().GetTo().AsTime(), int(stream.Msg().GetFound())
	}
	if err := stream.Err(); err != nil {
		return failed("report service levels", err)
	}
	if r.Found > len(r.Levels) {
		a.note("%d of %d pairs: those with most packets", len(r.Levels), r.Found)
	}
	if c.Format == "html" {
		return slaPage.Execute(a.out, &r)
	}
	if a.format == "table" && c.Format == "csv" {
		a.format = "csv"
	}
	return a.show(messageList(r.Levels), r.table(), func(w io.Writer) error {
		if err := r.summary().write(w, a.color); err != nil {
			return err
		}
		a.note("until %s UTC; intervals of 95 %%; %d met, %d missed, %d undecided", r.Until.Format(time.DateTime), r.Count("met"), r.Count("missed"), r.Count("undecided"))
		return nil
	})
}

// slaReport is a report with what it was asked for.
type slaReport struct {
	Request      *pillionv1.ServiceLevelsRequest
	Month, Scope string
	Until        time.Time
	Levels       []*pillionv1.ServiceLevel
	Found        int
}

// table has a row for each pair. For programs, shares are fractions and delays ns.
func (r *slaReport) table() *table {
	t := newTable("source", "destination", "availability", "availability_verdict", "up_minutes", "down_minutes", "silent_minutes",
		"delay_p"+fmt.Sprintf("%.0f", 100*r.Request.Quantile)+"_ns", "delay_low_ns", "delay_high_ns", "delay_verdict", "clock_error_ns",
		"loss", "loss_low", "loss_high", "loss_verdict", "packets", "step_s", "blocks", "block_s", "sampled")
	for _, l := range r.Levels {
		step := time.Duration(l.StepMs) * time.Millisecond
		t.add(text(l.Source), text(l.Destination), shareCell(l.Availability, 3), text(l.AvailabilityVerdict), number(l.Up), number(l.Down), number(l.Silent),
			delayCell(l.DelayNs), delayCell(l.DelayLowNs), delayCell(l.DelayHighNs), text(l.DelayVerdict), slaClock(l),
			shareCell(l.Loss, 4), shareCell(l.LossLow, 4), shareCell(l.LossHigh, 4), text(l.LossVerdict), number(l.Expected),
			cell{step.String(), fmt.Sprint(step.Seconds())}, number(l.Blocks), number(l.BlockMs/1000), number(l.Sampled))
	}
	return t
}

// summary is the table for people: each figure with its interval and verdict.
func (r *slaReport) summary() *table {
	q := fmt.Sprintf("P%.0f", 100*r.Request.Quantile)
	t := newTable("source", "destination", ">availability", ">down", ">silent", ">delay="+q, "interval", ">loss", "interval", ">packets")
	judged := func(c cell, verdict string) cell { return text(strings.TrimSpace(c.shown + " " + verdict)) }
	for _, l := range r.Levels {
		t.add(text(l.Source), text(l.Destination), judged(shareCell(l.Availability, 3), l.AvailabilityVerdict),
			text(fmt.Sprintf("%d min", l.Down)), text(fmt.Sprintf("%d min", l.Silent)),
			judged(delayCell(l.DelayNs), l.DelayVerdict), text(slaInterval(delayCell(l.DelayLowNs), delayCell(l.DelayHighNs))),
			judged(shareCell(l.Loss, 4), l.LossVerdict), text(slaInterval(shareCell(l.LossLow, 4), shareCell(l.LossHigh, 4))), number(l.Expected))
	}
	return t
}

// slaInterval shows an interval; nothing if neither end is known.
func slaInterval(low, high cell) string {
	if low.plain == "" && high.plain == "" {
		return ""
	}
	return low.shown + " to " + high.shown
}

// slaClock is the largest error of the clocks, or that there are delays whose error is unknown.
func slaClock(l *pillionv1.ServiceLevel) cell {
	if l.Delays == 0 || l.ClockUnknown > 0 {
		return clockCell(l.Delays, math.NaN())
	}
	return clockCell(l.Delays, float64(l.ClockErrorNs))
}

// shareCell is a cell with a percentage.
func shareCell(value float64, places int) cell {
	if math.IsNaN(value) {
		return cell{"-", ""}
	}
	return cell{fmt.Sprintf("%.*f %%", places, 100*value), strconv.FormatFloat(value, 'g', -1, 64)}
}

//go:embed report.html
var slaText string

var slaPage = template.Must(template.New("report").Funcs(template.FuncMap{
	"share":  func(value float64, places int) string { return shareCell(value, places).shown },
	"delay":  func(ns float64) string { return delayCell(ns).shown },
	"target": func(ns int64) string { return delayCell(float64(ns)).shown },
	"clock":  func(l *pillionv1.ServiceLevel) string { return slaClock(l).shown },
	"delays": func(low, high float64) string { return slaInterval(delayCell(low), delayCell(high)) },
	"shares": func(low, high float64) string { return slaInterval(shareCell(low, 4), shareCell(high, 4)) },
	"step": func(ms int64) string {
		return fmt.Sprintf("%g min", time.Duration(ms*int64(time.Millisecond)).Minutes())
	},
	"length": func(ms int64) string {
		if hours := ms / time.Hour.Milliseconds(); hours%24 == 0 {
			return fmt.Sprintf("%d d", hours/24)
		}
		return fmt.Sprintf("%d h", ms/time.Hour.Milliseconds())
	},
	"date": func(t time.Time) string { return t.UTC().Format("2 January 2006 15:04") },
}).Parse(slaText))

// Quantile is its name.
func (r *slaReport) Quantile() string { return fmt.Sprintf("%.0f %%", 100*r.Request.Quantile) }

// Count is how many pairs have a verdict as their worst.
func (r *slaReport) Count(verdict string) (n int) {
	for _, l := range r.Levels {
		if worstVerdict(l) == verdict {
			n++
		}
	}
	return n
}

// worstVerdict is missed if any target is, else undecided if any is.
func worstVerdict(l *pillionv1.ServiceLevel) string {
	worst := ""
	for _, verdict := range []string{l.AvailabilityVerdict, l.DelayVerdict, l.LossVerdict} {
		if worst == "missed" || verdict == "" {
			continue
		}
		if verdict != "met" || worst == "" {
			worst = verdict
		}
	}
	return worst
}
