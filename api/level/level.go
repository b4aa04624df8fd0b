// Package level writes service levels, as the API answers them, into files: CSV for programs, and HTML for people, which is one
// file without references to others. docs/howto/sla.md has the definitions.
//
// It computes nothing and asks nobody: server/sla does the one, FlowService/ServiceLevels the other. In the flow it stands behind
// the API: in the server, for the web page and curl, and in the command line.
package level

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/csvfile"
	"pillion.dev/internal/quantity"
)

// MonthForm is how a month is written: YYYY-MM.
const MonthForm = "2006-01"

// ParseMonth reads a month, in UTC.
func ParseMonth(text string) (time.Time, error) {
	month, err := time.Parse(MonthForm, text)
	if err != nil || month.Year() < 1970 || month.Year() > 2200 {
		return time.Time{}, fmt.Errorf("read month %.20q: use YYYY-MM, such as 2026-11", text)
	}
	return month, nil
}

// Report is an answer with the question.
type Report struct {
	Request *pillionv1.ServiceLevelsRequest
	// Until is the end of the range that was read.
	Until  time.Time
	Levels []*pillionv1.ServiceLevel
	// Found is the number of pairs with packets, of which Levels may be a part.
	Found int
	// Limits are the scope of the asking token; none: it sees everything.
	Limits []string
}

// Add adds a message of the answer.
func (r *Report) Add(message *pillionv1.ServiceLevelsResponse) {
	if level := message.GetLevel(); level != nil {
		r.Levels = append(r.Levels, level)
	}
	r.Until, r.Found, r.Limits = message.GetTo().AsTime(), int(message.GetFound()), append(r.Limits, message.GetLimits()...)
}

// Columns are the names of the columns of Rows.
func (r *Report) Columns() []string {
	return []string{"source", "destination", "availability", "availability_verdict", "up_minutes", "down_minutes", "silent_minutes",
		"delay_p" + fmt.Sprintf("%.0f", 100*r.Request.GetQuantile()) + "_ns", "delay_low_ns", "delay_high_ns", "delay_verdict", "clock_error_ns",
		"loss", "loss_low", "loss_high", "loss_verdict", "packets", "step_s", "blocks", "block_s", "sampled"}
}

// Rows has a row for each pair. Shares are fractions, delays ns; what is unknown is empty.
func (r *Report) Rows() [][]string {
	rows := make([][]string, len(r.Levels))
	for i, l := range r.Levels {
		clock := ""
		if l.GetDelays() > 0 && l.GetClockUnknown() == 0 {
			clock = fmt.Sprint(l.GetClockErrorNs())
		}
		step := time.Duration(l.GetStepMs()) * time.Millisecond
		rows[i] = []string{
			l.GetSource(), l.GetDestination(), fraction(l.GetAvailability()), l.GetAvailabilityVerdict(), fmt.Sprint(l.GetUp()), fmt.Sprint(l.GetDown()), fmt.Sprint(l.GetSilent()),
			nanos(l.GetDelayNs()), nanos(l.GetDelayLowNs()), nanos(l.GetDelayHighNs()), l.GetDelayVerdict(), clock,
			fraction(l.GetLoss()), fraction(l.GetLossLow()), fraction(l.GetLossHigh()), l.GetLossVerdict(), fmt.Sprint(l.GetExpected()),
			fmt.Sprint(step.Seconds()), fmt.Sprint(l.GetBlocks()), fmt.Sprint(l.GetBlockMs() / 1000), fmt.Sprint(l.GetSampled()),
		}
	}
	return rows
}

// WriteCSV writes Columns and Rows (RFC 4180).
func (r *Report) WriteCSV(w io.Writer) error {
	writer := csvfile.NewWriter(w)
	writer.Texts(r.Columns()...)
	writer.End()
	for _, row := range r.Rows() {
		for i, cell := range row {
			writer.Cell([]byte(cell), i < 2) // the agents; the rest is figures
		}
		writer.End()
	}
	return writer.Flush()
}

func fraction(value float64) string {
	if math.IsNaN(value) {
		return ""
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

func nanos(ns float64) string {
	if math.IsNaN(ns) {
		return ""
	}
	return fmt.Sprint(int64(ns))
}

// Share shows a share as a percentage; NaN: unknown.
func Share(value float64, places int) string {
	if math.IsNaN(value) {
		return "-"
	}
	return fmt.Sprintf("%.*f %%", places, 100*value)
}

// Delay shows a time in ns; NaN: unknown.
func Delay(ns float64) string {
	if math.IsNaN(ns) {
		return "-"
	}
	return quantity.FormatNanos(int64(ns))
}

// Interval shows two ends; nothing if neither is known.
func Interval(low, high string) string {
	if low == "-" && high == "-" {
		return ""
	}
	return low + " to " + high
}

// Clock shows the largest error of the clocks, or that there are delays whose error is unknown.
func Clock(l *pillionv1.ServiceLevel) string {
	switch {
	case l.GetDelays() == 0:
		return "-"
	case l.GetClockUnknown() > 0:
		return "±?"
	}
	return "±" + quantity.FormatNanos(l.GetClockErrorNs())
}

// BlocksLeast is the smallest number of blocks of time with packets for which there is an interval.
const BlocksLeast = 10

// LossLack says why the loss has no interval.
func LossLack(l *pillionv1.ServiceLevel) string {
	if l.GetExpected() == 0 {
		return "no packets"
	}
	return fmt.Sprintf("fewer than %d blocks", BlocksLeast)
}

// DelayLack says why the delay has no interval.
func DelayLack(l *pillionv1.ServiceLevel) string {
	switch {
	case l.GetDelays() == 0:
		return "no delays"
	case l.GetClockUnknown() > 0:
		return "clock error unknown"
	}
	return LossLack(l)
}

// minutes shows many of them in hours or days.
func minutes(n uint32) string {
	switch {
	case n < 120:
		return fmt.Sprintf("%d min", n)
	case n < 48*60:
		return fmt.Sprintf("%.1f h", float64(n)/60)
	}
	return fmt.Sprintf("%.1f d", float64(n)/(24*60))
}

// grouped has narrow spaces between thousands.
func grouped(n uint64) string { return strings.ReplaceAll(humanize.Comma(int64(n)), ",", "\u202f") }

//go:embed report.html
var pageText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"share":  Share,
	"delay":  Delay,
	"target": func(ns int64) string { return quantity.FormatNanos(ns) },
	"clock":  Clock,
	"count":  grouped, "minutes": minutes, "delayLack": DelayLack, "lossLack": LossLack,
	"scarce":  func(l *pillionv1.ServiceLevel) bool { return l.GetSilent() > l.GetUp()+l.GetDown() },
	"unclear": func(l *pillionv1.ServiceLevel) bool { return l.GetClockUnknown() > 0 },
	"delays":  func(low, high float64) string { return Interval(Delay(low), Delay(high)) },
	"shares":  func(low, high float64) string { return Interval(Share(low, 4), Share(high, 4)) },
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
}).Parse(pageText))

// WriteHTML writes a page for a browser or for printing.
func (r *Report) WriteHTML(w io.Writer) error { return page.Execute(w, r) }

// Month is the month in which the range begins, such as November 2026.
func (r *Report) Month() string { return r.Request.GetFrom().AsTime().Format("January 2006") }

// Scope is the scope of the request, in words.
func (r *Report) Scope() string { return strings.Join(r.Request.GetScope(), ", ") }

// Seen is what the asking token sees, in words; empty: everything.
func (r *Report) Seen() string { return strings.Join(r.Limits, ", ") }

// Partial reports whether the month had not ended.
func (r *Report) Partial() bool { return r.Until.Before(r.Request.GetTo().AsTime()) }

// Judged reports whether there are targets.
func (r *Report) Judged() bool {
	return r.Request.GetAvailability() > 0 || r.Request.GetLoss() > 0 || r.Request.GetDelayNs() > 0
}

// Sorted are the levels for people: those that miss a target first, then those with one undecided.
func (r *Report) Sorted() []*pillionv1.ServiceLevel {
	order := []string{"missed", "undecided", "met", ""}
	return slices.SortedStableFunc(slices.Values(r.Levels), func(a, b *pillionv1.ServiceLevel) int {
		return slices.Index(order, Worst(a)) - slices.Index(order, Worst(b))
	})
}

// Quantile is the share of packets that a target of the delay is about.
func (r *Report) Quantile() string { return fmt.Sprintf("%.0f %%", 100*r.Request.GetQuantile()) }

// Percentile is the name of the quantile, such as P99.
func (r *Report) Percentile() string { return fmt.Sprintf("P%.0f", 100*r.Request.GetQuantile()) }

// Count is how many pairs have a verdict as their worst.
func (r *Report) Count(verdict string) (n int) {
	for _, l := range r.Levels {
		if Worst(l) == verdict {
			n++
		}
	}
	return n
}

// Worst is missed if any target is, else undecided if any is; empty: there are no targets.
func Worst(l *pillionv1.ServiceLevel) string {
	worst := ""
	for _, verdict := range []string{l.GetAvailabilityVerdict(), l.GetDelayVerdict(), l.GetLossVerdict()} {
		if worst == "missed" || verdict == "" {
			continue
		}
		if verdict != "met" || worst == "" {
			worst = verdict
		}
	}
	return worst
}
