package agent

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"pillion.dev/agent/runner"
	"pillion.dev/agent/view"
	"pillion.dev/internal/clock"
	"pillion.dev/internal/quantity"
	"pillion.dev/probe/flow"
	"pillion.dev/wire/fivetuple"
)

// tableRows is the number of flows in the live table.
const tableRows = 20

const tableHead = "%-46s %-6s %9s %7s %6s %6s %10s %10s %10s %10s\n"

// table prints the live view: over the previous one on a terminal, below it elsewhere.
func (v deviceView) table(interval runner.LocalRows) error {
	var b strings.Builder
	if v.IsTerminal() {
		b.WriteString(view.Home)
	}
	rows, tally, state := interval.Rows, interval.Tally, interval.Clock
	fmt.Fprintf(&b, "%s  %d flows  measured %d, unmarked %d, rejected %d packets  clock ±%s%s\n",
		interval.Time.Format(time.TimeOnly), tally.Flows, tally.Packets, tally.Unmarked, tally.Rejected,
		quantity.FormatNanos(int64(state.MaxError)), unsynchronised(state))
	b.WriteString(mismatchText(tally))
	fmt.Fprintf(&b, tableHead, "flow", "proto", "packets", "lost", "dup", "reord",
		"delay p50", "p90", "p99", "ipdv p90")
	for _, row := range rows[:min(len(rows), tableRows)] {
		delay := func(ns int64) string { return quantity.FormatMeasuredNanos(row.Delay.Count > 0, ns) }
		fmt.Fprintf(&b, tableHead, flowText(row.Key), fivetuple.ProtocolName(row.Key.Protocol),
			fmt.Sprint(row.Packets), fmt.Sprint(row.Lost), checked(row.Duplicated, row.Counts),
			checked(row.Reordered, row.Counts), delay(row.Delay.P50), delay(row.Delay.P90), delay(row.Delay.P99),
			quantity.FormatMeasuredNanos(row.Variation.Count > 0, row.Variation.P90))
		b.WriteString(moduleText(row.States()))
	}
	if len(rows) > tableRows {
		fmt.Fprintf(&b, "... and %d more flows\n", len(rows)-tableRows)
	}
	if len(rows) == 0 {
		b.WriteString("no marked packets in this interval\n")
	}
	b.WriteString(hopText(interval.Hops))
	return v.Print(nil, "%s", b.String())
}

func unsynchronised(state clock.State) string {
	if state.Synchronised {
		return ""
	}
	return " (unsynchronised)"
}

func flowText(k flow.Key) string {
	return endText(k.Src, k.Sport) + " > " + endText(k.Dst, k.Dport)
}

func endText(address netip.Addr, port uint16) string {
	if port == 0 {
		return addressText(address)
	}
	if address.IsValid() {
		return netip.AddrPortFrom(address, port).String()
	}
	return fmt.Sprintf("*:%d", port)
}
