package main

import (
	"fmt"
	"strings"

	"pillion.dev/bench/estimate"
)

const method = `Two network namespaces and a veth pair. A block is one run of each arm, in random order; a ratio is that of the rates of
two arms in the same block: median over the blocks, in brackets the 95 % confidence interval of the median (order statistics; with
fewer than 6 blocks, minimum and maximum). A target is met or missed if the whole interval is on one side of it, otherwise
undecided; the intervals are not corrected for multiple comparisons. ` + "`none`" + ` is the mean of the block's two native runs;
` + "`none-again`" + ` is one of them over the other and shows the noise of a ratio of single runs. A UDP run that lost a packet is invalid and repeated.

UDP: one thread on one core, which also carries each packet all the way into the receiving socket; ns of its CPU time a packet, median
over bursts. TCP: one iperf3 stream with both ends on one core; bits a second of the CPU time of both; ` + "`segmented`" + `: the source's
device segments each buffer and the destination's merges them (GRO). ` + "`requests`" + `: a request and a reply of 100 bytes, one after
the other, ns of CPU time of both ends. Figures by the clock include what else the machine does. Processes: the CPU time of an
arm's own processes, in per cent of a core; no rate includes it. A veth pair has no wire: with a real link the same cost is a smaller
share. A median says little about the tails.

`

// markdown renders the report as tables for people.
func (r report) markdown() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "# Overhead\n\nMade by `make bench`; the raw values are in the JSON file beside this one.\n\n")
	fmt.Fprintf(&b, "%s, commit %s. %s, %d cores, %d MB, Linux %s, %s. Load %s before, %s after.\n",
		r.Date.UTC().Format("2006-01-02 15:04 UTC"), r.Commit, m.Processor, m.Cores, m.MemoryMB, m.Kernel,
		m.System, m.LoadBegin, m.LoadEnd)
	fmt.Fprintf(&b, "Up to %d blocks a cell, TCP %g s, UDP %g s a run, seed %d.", r.Settings.Blocks, r.Settings.TCPSeconds,
		r.Settings.UDPSeconds, r.Settings.Seed)
	if r.Settings.Source != "" {
		fmt.Fprintf(&b, " Each source with `%s`.", r.Settings.Source)
	}
	b.WriteString("\n\n" + method)
	r.writeArms(&b)
	r.writeBars(&b)
	r.writeRates(&b)
	r.writePrograms(&b)
	r.writeMaps(&b)
	return b.String()
}

func (r report) writeArms(b *strings.Builder) {
	b.WriteString("| arm | what it is | one-way delay | loss |\n|---|---|---|---|\n")
	for _, a := range r.Arms {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", a.Name, a.What, yesNo(a.Delay), yesNo(a.Loss))
	}
	for _, why := range r.Missing {
		fmt.Fprintf(b, "\nLeft out: %s.\n", why)
	}
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "–"
}

func (r report) writeBars(b *strings.Builder) {
	var lines strings.Builder
	for _, c := range r.Cells {
		for _, bar := range c.Bars {
			verdict := string(bar.Verdict)
			if bar.Verdict != estimate.Met {
				verdict = "**" + verdict + "**"
			}
			if bar.Doubt != "" {
				verdict += ": " + bar.Doubt
			}
			figure := bar.Figure.String()
			if bar.Sign == "≤" {
				figure = nanoseconds(&bar.Figure)
			}
			fmt.Fprintf(&lines, "| %s | %s | %s | %s | %s | %d | %s %g | %s |\n", bar.What, c.Traffic, bar.Arm, bar.Against,
				figure, bar.Figure.Values, bar.Sign, bar.Target, verdict)
		}
	}
	writeTable(b, "Targets", "", "| target | traffic | arm | against | figure | blocks | target | verdict |\n|---|---|---|---|---|---:|---|---|\n", lines.String())
}

func (r report) writeRates(b *strings.Builder) {
	var lines strings.Builder
	for _, c := range r.Cells {
		for _, a := range c.Arms {
			if a.Rate == nil {
				continue
			}
			fmt.Fprintf(&lines, "| %s | %s | %s | %s | %s | %s | %.0f %% | %s |\n", c.Traffic, a.Arm, quantity(a.Rate.Median, c.Unit),
				ratio(a.RatioToNone), ratio(a.RatioToEmpty), ratio(a.RatioByClock), 100*a.Beside.Median, a.remarks())
		}
	}
	writeTable(b, "Arms", "", "| traffic | arm | cost | ratio to none | to empty | to none by the clock | processes | remarks |\n"+
		"|---|---|---:|---|---|---|---:|---|\n", lines.String())
}

// writeTable writes a section, unless the table has no lines.
func writeTable(b *strings.Builder, title, text, heading, lines string) {
	if lines != "" {
		b.WriteString("\n## " + title + "\n\n" + text + heading + lines)
	}
}

// remarks are reasons to distrust a figure.
func (a armReport) remarks() string {
	var parts []string
	if a.Invalid > 0 {
		parts = append(parts, fmt.Sprintf("%d invalid runs", a.Invalid))
	}
	if a.Missed > 0 {
		parts = append(parts, fmt.Sprintf("did not capture %.0f packets", a.Missed))
	}
	if a.MarkedShare != nil && *a.MarkedShare < 0.9 {
		parts = append(parts, fmt.Sprintf("only %.2g of the packets due were marked", *a.MarkedShare))
	}
	return strings.Join(parts, ", ")
}

func (r report) writePrograms(b *strings.Builder) {
	var lines strings.Builder
	for _, c := range r.Cells {
		for _, a := range c.Arms {
			if a.SourceNs != nil || a.DestinationNs != nil {
				fmt.Fprintf(&lines, "| %s | %s | %s | %s |\n", a.Arm, c.Traffic, nanoseconds(a.SourceNs), nanoseconds(a.DestinationNs))
			}
		}
	}
	writeTable(b, "Programs", "ns a 56-byte UDP packet above an empty program in the same place, by the kernel's own count (`bpf_stats`).\n\n",
		"| arm | traffic | source | destination |\n|---|---|---:|---:|\n", lines.String())
}

func (r report) writeMaps(b *strings.Builder) {
	var lines strings.Builder
	var total uint64
	for _, m := range r.Maps {
		total += m.Bytes
		fmt.Fprintf(&lines, "| %s | %s | %d | %.1f |\n", m.Name, m.Type, m.MaxEntries, float64(m.Bytes)/1024)
	}
	if total > 0 {
		fmt.Fprintf(&lines, "| all | | | %.1f |\n", float64(total)/1024)
	}
	writeTable(b, "Memory of maps", "Those of the programs in the packet path, with the defaults.\n\n", "| map | type | entries | KiB |\n|---|---|---:|---:|\n", lines.String())
}

// quantity shows a rate: bits as a rate, packets and transactions as the time of one.
func quantity(value float64, unit string) string {
	if unit == "bits/CPU s" {
		return fmt.Sprintf("%.2f Gbit/s", value/1e9)
	}
	return fmt.Sprintf("%.0f ns", 1e9/value)
}

func ratio(e *estimate.Estimate) string {
	if e == nil {
		return "–"
	}
	return e.String()
}

func nanoseconds(e *estimate.Estimate) string {
	if e == nil {
		return "–"
	}
	return fmt.Sprintf("%.0f [%.0f..%.0f] ns", e.Median, e.Low, e.High)
}
