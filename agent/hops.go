package agent

import (
	"fmt"
	"strings"
	"time"

	"pillion.dev/agent/runner"
	"pillion.dev/internal/quantity"
	"pillion.dev/probe/destination"
)

// hopLine has the measurements of one hop in one interval. Hop 0 is the whole path.
type hopLine struct {
	Time       time.Time `json:"time"`
	Src        string    `json:"src"`
	Dst        string    `json:"dst"`
	Path       string    `json:"path"`
	Hop        int       `json:"hop"`
	Node       string    `json:"node"`
	Previous   string    `json:"previous"`
	Skipped    *int      `json:"skipped"`
	Packets    uint64    `json:"packets"`
	Overflowed uint64    `json:"overflowed"`
	Delay      hopTimes  `json:"delay_ns"`
	// Uncertainty due to the resolution of the time stamps, ns, without the uncertainty of the clocks.
	Uncertainty int64 `json:"uncertainty_ns"`
}

type hopTimes struct {
	Count uint64 `json:"count"`
	Min   int64  `json:"min"`
	Mean  int64  `json:"mean"`
	P50   int64  `json:"p50"`
	P99   int64  `json:"p99"`
	Max   int64  `json:"max"`
}

// MarshalJSON writes null for statistics of no values.
func (t hopTimes) MarshalJSON() ([]byte, error) {
	type figures hopTimes
	return quantity.MarshalMeasured(t.Count > 0, figures(t), "min", "mean", "p50", "p99", "max")
}

func newHopLine(at time.Time, row *runner.HopRow) hopLine {
	line := hopLine{
		Time: at.UTC(), Src: addressText(row.Src), Dst: addressText(row.Dst), Path: row.Path, Hop: row.Hop, Node: row.Node, Previous: row.Previous,
		Packets: row.Packets, Overflowed: row.Overflowed, Delay: hopTimes{Count: row.Delay.Count}, Uncertainty: row.UncertaintyNs,
	}
	if row.Skipped >= 0 {
		line.Skipped = &row.Skipped
	}
	if d := row.Delay; d.Count > 0 {
		line.Delay = hopTimes{d.Count, d.Min, d.WholeMean(), int64(d.Quantile(0.5)), int64(d.Quantile(0.99)), d.Max}
	}
	return line
}

// hops prints the hops of an interval as JSON.
func (v deviceView) hops(interval runner.LocalRows) error {
	for i := range interval.Hops {
		err := v.Print(struct {
			Hop hopLine `json:"hop"`
		}{newHopLine(interval.Time, &interval.Hops[i])}, "")
		if err != nil {
			return err
		}
	}
	return nil
}

const hopHead = "    %-32s %10s %10s %10s %8s\n"

// hopText formats the hops of an interval as a table for each path.
func hopText(rows []runner.HopRow) string {
	var b strings.Builder
	for i := range min(len(rows), 2*tableRows) {
		row := &rows[i]
		line := newHopLine(time.Time{}, row)
		if row.Hop == 0 {
			fmt.Fprintf(&b, "hops of %s > %s, %d packets%s\n", line.Src, line.Dst, row.Packets, overflowText(row))
			fmt.Fprintf(&b, hopHead, "hop", "delay p50", "p99", "max", "±")
		}
		times := [3]string{"-", "-", "-"}
		if row.Delay.Count > 0 {
			times = [3]string{quantity.FormatNanos(line.Delay.P50), quantity.FormatNanos(line.Delay.P99), quantity.FormatNanos(line.Delay.Max)}
		}
		fmt.Fprintf(&b, hopHead, hopName(row), times[0], times[1], times[2], quantity.FormatNanos(row.UncertaintyNs))
	}
	if more := len(rows) - 2*tableRows; more > 0 {
		fmt.Fprintf(&b, "... and %d more hops\n", more)
	}
	return b.String()
}

func hopName(row *runner.HopRow) string {
	if row.Hop == 0 {
		return "whole path"
	}
	from, to := row.Previous, row.Node
	if from == "" {
		from = "source"
	}
	if to == "" {
		to = "destination"
	}
	name := from + " > " + to
	if row.Skipped > 0 {
		name += fmt.Sprintf(" (%d between)", row.Skipped)
	}
	return name
}

func overflowText(row *runner.HopRow) string {
	if row.Overflowed == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d passed more routers than a trace has room for)", row.Overflowed)
}

// tracesText is a line with the counters of IOAM traces; empty if traces are not read.
func tracesText(t *destination.TraceTally) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("        traces of hops: read %d, dropped %d, malformed %d\n", t.Written, t.Dropped, t.Malformed)
}
