package routerreport

import (
	"fmt"
	"strings"

	"pillion.dev/internal/quantity"
)

const summaryRow = "  %-15s %11s %10s %10s %10s %10s %10s %10s %10s\n"

// summaryText is the report at the end, for a terminal.
func summaryText(s Summary) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nRouter in %s of %s, Linux %s: %s, %s\n", s.Environment.where(), s.Environment.Host,
		s.Environment.Kernel, lengthText(s.DurationS), s.Environment.scope())
	for _, p := range s.Pairs {
		fmt.Fprintf(&b, "\n%s: %d packets, %.0f packets/s, %s", p.Name(), p.Packets, perSecond(p.Packets, s.DurationS), quantity.FormatMeasuredRate(8*perSecond(p.Bytes, s.DurationS)))
		if p.Merged > 0 {
			fmt.Fprintf(&b, "; %d further segments merged into these", p.Merged)
		}
		b.WriteString("\n")
		fmt.Fprintf(&b, summaryRow, "stage", "packets", "min", "mean", "p50", "p90", "p99", "p99.9", "max")
		for _, t := range p.Stages.rows() {
			fmt.Fprintf(&b, summaryRow, t.Name, fmt.Sprint(t.Count), each(t.Count, float64(t.Min)), each(t.Count, t.Mean),
				each(t.Count, float64(t.P50)), each(t.Count, float64(t.P90)), each(t.Count, float64(t.P99)),
				each(t.Count, float64(t.P999)), each(t.Count, float64(t.Max)))
		}
	}
	if len(s.Pairs) == 0 {
		b.WriteString("\nNothing was forwarded.\n")
	}
	writeQueues(&b, s.Queues, len(s.Queues))
	if len(s.Queues) > 0 {
		b.WriteString("Little's law: mean length equals departure rate x wait if each packet was seen at both ends.\n")
	}
	fmt.Fprintf(&b, "\nbreaks  %s\n", breakText(s.Breaks, 0))
	writeAccount(&b, s.Account)
	if s.Own+s.Below+s.Segments > 0 {
		fmt.Fprintf(&b, "        not included: %d locally generated, %d forwarded below IP, %d GSO segments\n", s.Own, s.Below, s.Segments)
	}
	if s.Cost != nil {
		fmt.Fprintf(&b, "cost    %.0f ns per hook run, %.2f %% of one CPU: %s per packet\n", s.Cost.HookNs, 100*s.Cost.Share, span(s.Cost.PacketNs))
	}
	if s.Records != nil {
		fmt.Fprintf(&b, "records %d written, %d lost\n", s.Records.Written, s.Records.Lost)
	}
	return b.String()
}
