package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"pillion.dev/lab/emulator"
)

// errNothing ends a demo without measurements.
var errNothing = errors.New("no marked packet arrived")

// compare prints the measurement beside the ground truth of the link.
func compare(out io.Writer, m measurement, truth emulator.Tally) error {
	if m.Packets == 0 {
		return fmt.Errorf("measure: %w", errNothing)
	}
	const format = "%-34s %14s %14s  %s\n"
	fmt.Fprintf(out, "\n%-34s %14s %14s\n", "a to b, marked packets", "measured", "ground truth")
	counts := []struct {
		name           string
		measured, true uint64
	}{
		{"sent", m.Marked, truth.Offered},
		{"received, including duplicates", m.Packets, truth.Delivered + truth.Duplicated},
		{"lost (RFC 7680)", m.Lost, truth.Lost},
		{"duplicated (RFC 5560)", m.Duplicated, truth.Duplicated},
		{"reordered (RFC 4737), lower bound", m.Reordered, truth.Reordered},
	}
	for _, c := range counts {
		fmt.Fprintf(out, format, c.name, strconv.FormatUint(c.measured, 10), strconv.FormatUint(c.true, 10),
			difference(int64(c.measured)-int64(c.true)))
	}
	delays := []struct {
		name           string
		measured, true float64
	}{
		{"one-way delay, mean (RFC 7679)", m.Delay.MeanNs, truth.Delay.Mean},
		{"one-way delay, median", m.Delay.P50Ns, float64(truth.Delay.P50)},
		{"one-way delay, 99th percentile", m.Delay.P99Ns, float64(truth.Delay.P99)},
	}
	for _, d := range delays {
		fmt.Fprintf(out, format, d.name, milliseconds(d.measured), milliseconds(d.true),
			fmt.Sprintf("%+.0f us", (d.measured-d.true)/1e3))
	}
	if m.Reordered != truth.Reordered || m.Lost != truth.Lost || m.Duplicated != truth.Duplicated {
		fmt.Fprintf(out, "\nSegments of one TSO/GSO packet share a sequence number: reordering among them is\n"+
			"not detected, so that the number of reordered packets is a lower bound, and a\n"+
			"duplicate among them offsets a loss. Packets sent individually are counted exactly.\n")
	}
	fmt.Fprintf(out, "\nPacket accounting: seen at the source %d = marked %d + not marked %d;\n"+
		"  sent %d = received %d + lost %d, without duplicates. The measured delay also\n"+
		"  includes the router and both hosts' network stacks, which the ground truth of the\n"+
		"  link does not: on a busy machine, waiting for a CPU there raises high percentiles.\n"+
		"  Quantiles come from histogram buckets that are at most 3.2 %% wide.\n",
		m.Seen, m.Marked, m.Seen-m.Marked, m.Expected, m.Expected-m.Lost, m.Lost)
	return nil
}

func difference(n int64) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%+d", n)
}

func milliseconds(ns float64) string { return fmt.Sprintf("%.3f ms", ns/1e6) }

// sayWhere prints how to view the measurement.
func (d *demo) sayWhere(when string) {
	cli := short(d.cli())
	if port := d.lab.Spec.Service.Forward; port != defaultPort {
		cli += fmt.Sprintf(" --server localhost:%d", port)
	}
	url, token := d.lab.ServiceURL(), d.lab.TokenFile()
	fmt.Fprintf(d.out, "%s, open %s in a browser on this machine (token: %s), or use another terminal:\n"+
		"  %s session watch %s --by flow\n"+
		"  %s tail flows\n"+
		"  curl -H \"Authorization: Bearer $(cat %s)\" %s/metrics\n\n", when, url, token, cli, sessionName, cli, token, url)
}

// sayKept prints how to use and remove a lab that is kept.
func (d *demo) sayKept() {
	fmt.Fprintln(d.out)
	d.sayWhere("The lab stays up")
	fmt.Fprintf(d.out, "Take it down:\n  %s lab down %s\n", short(d.options.Agent), d.lab.Spec.Name)
}

// defaultPort is the port that pillion uses without --server.
const defaultPort = 8470

// short is a path relative to the working directory, if it is below it.
func short(path string) string {
	folder, err := os.Getwd()
	if err != nil {
		return path
	}
	if relative, err := filepath.Rel(folder, path); err == nil && !strings.HasPrefix(relative, "..") && strings.Contains(relative, "/") {
		return relative
	}
	return path
}
