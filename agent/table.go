package agent

import (
	"fmt"
	"strings"
	"time"

	"pillion.dev/internal/clock"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/flow"
	"pillion.dev/wire/fivetuple"
)

// tableRows is how many flows the live table shows.
const tableRows = 20

const (
	tableHead = "%-46s %-6s %9s %7s %6s %6s %10s %10s %10s %10s\n"
	home      = "\x1b[H\x1b[2J"
)

// table draws the live view: over the old one on a terminal, below it elsewhere.
func (v *destinationView) table(rows []destination.Row, tally destination.Tally, state clock.State) error {
	var b strings.Builder
	if isTerminal(v.out) {
		b.WriteString(home)
	}
	fmt.Fprintf(&b, "%s  %d flows  marked %d, unmarked %d, rejected %d packets  clock ±%s%s\n",
		time.Now().Format(time.TimeOnly), tally.Flows, tally.Packets, tally.Unmarked, tally.Rejected,
		duration(int64(state.MaxError)), unsynchronised(state))
	fmt.Fprintf(&b, tableHead, "flow", "proto", "packets", "lost", "dup", "reord",
		"delay p50", "p90", "p99", "ipdv p90")
	for i, row := range rows {
		if i == tableRows {
			fmt.Fprintf(&b, "... and %d more flows\n", len(rows)-tableRows)
			break
		}
		fmt.Fprintf(&b, tableHead, flowText(row.Key), fivetuple.ProtocolName(row.Key.Protocol),
			fmt.Sprint(row.Packets), fmt.Sprint(row.Lost), fmt.Sprint(row.Duplicated),
			fmt.Sprint(row.Reordered), duration(row.Delay.P50), duration(row.Delay.P90),
			duration(row.Delay.P99), duration(row.Variation.P90))
	}
	if len(rows) == 0 {
		b.WriteString("no marked packets in this interval\n")
	}
	_, err := v.out.Write([]byte(b.String()))
	return err
}

func unsynchronised(state clock.State) string {
	if state.Synchronised {
		return ""
	}
	return " (nothing disciplines it)"
}

func flowText(k flow.Key) string {
	return endText(k, true) + " > " + endText(k, false)
}

func endText(k flow.Key, source bool) string {
	address, port := k.Dst, k.Dport
	if source {
		address, port = k.Src, k.Sport
	}
	switch {
	case port == 0:
		return addressText(address)
	case address.Is6():
		return fmt.Sprintf("[%s]:%d", address, port)
	}
	return fmt.Sprintf("%s:%d", addressText(address), port)
}

// duration gives nanoseconds with a unit and three or four digits.
func duration(ns int64) string {
	size := ns
	if size < 0 {
		size = -size
	}
	switch {
	case size < 1_000:
		return fmt.Sprintf("%d ns", ns)
	case size < 1_000_000:
		return fmt.Sprintf("%.1f us", float64(ns)/1e3)
	case size < 1_000_000_000:
		return fmt.Sprintf("%.3f ms", float64(ns)/1e6)
	}
	return fmt.Sprintf("%.3f s", float64(ns)/1e9)
}
