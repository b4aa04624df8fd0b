package emulator

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// WriteTable prints the truth: one row for each direction, for its marked packets, and
// for each of its first flows.
func (t *Truth) WriteTable(w io.Writer) error {
	const listed = 20
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "link %s of lab %s\n", t.Link, t.Lab)
	fmt.Fprintln(table, "offered\tdelivered\tlost\tduplicated\treordered\tin flight\tdelay p50\tp99\t  packets")
	for i := range t.Directions {
		d := &t.Directions[i]
		row(table, &d.Total, fmt.Sprintf("%s to %s", d.From, d.To))
		row(table, &d.Marked, "  marked")
		for n := range d.Flows {
			if n == listed {
				fmt.Fprintf(table, "\t\t\t\t\t\t\t\t  and %d more flows\n", len(d.Flows)-listed)
				break
			}
			f := &d.Flows[n]
			name := fmt.Sprintf("  %s %d > %s %d, protocol %d", f.Source, f.SourcePort, f.Destination, f.DestinationPort, f.Protocol)
			if f.Other {
				name = "  further flows together"
			}
			if f.Marked {
				name += ", marked"
			}
			row(table, &f.Tally, name)
		}
		if d.Unread > 0 {
			fmt.Fprintf(table, "\t\t\t\t\t\t\t\t  warning: %d frames were dropped before the emulator could read them\n", d.Unread)
		}
	}
	return table.Flush()
}

func row(w io.Writer, t *Tally, name string) {
	fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t  %s\n", t.Offered, t.Delivered, t.Lost, t.Duplicated,
		t.Reordered, t.InFlight, time.Duration(t.Delay.P50), time.Duration(t.Delay.P99), name)
}
