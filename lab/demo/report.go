package demo

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"pillion.dev/lab/emulator"
)

type sourceSummary struct {
	Seen    uint64            `json:"seen"`
	Marked  uint64            `json:"marked"`
	Skipped map[string]uint64 `json:"skipped"`
}

type destinationSummary struct {
	Packets    uint64 `json:"packets"`
	Expected   uint64 `json:"expected"`
	Lost       uint64 `json:"lost"`
	Duplicated uint64 `json:"duplicated"`
	Reordered  uint64 `json:"reordered"`
	Rejected   uint64 `json:"rejected"`
	Delay      struct {
		Mean int64 `json:"mean"`
		P50  int64 `json:"p50"`
		P99  int64 `json:"p99"`
	} `json:"delay_ns"`
}

// errNothing ends a demonstration that demonstrates nothing.
var errNothing = errors.New("no marked packet arrived")

// compare prints what was measured beside what the link did.
func compare(out io.Writer, source sourceSummary, read destinationSummary, truth emulator.Tally) error {
	if read.Packets == 0 {
		return fmt.Errorf("measure: %w", errNothing)
	}
	const format = "%-34s %14s %14s  %s\n"
	fmt.Fprintf(out, "\n"+format, "a to b, marked packets", "measured", "true", "")
	counts := []struct {
		name           string
		measured, true uint64
	}{
		{"sent (source / link)", source.Marked, truth.Offered},
		{"arrived, with duplicates", read.Packets, truth.Delivered + truth.Duplicated},
		{"lost (RFC 7680)", read.Lost, truth.Lost},
		{"duplicated (RFC 5560)", read.Duplicated, truth.Duplicated},
		{"reordered (RFC 4737)", read.Reordered, truth.Reordered},
	}
	for _, c := range counts {
		fmt.Fprintf(out, format, c.name, strconv.FormatUint(c.measured, 10), strconv.FormatUint(c.true, 10),
			difference(int64(c.measured)-int64(c.true)))
	}
	delays := []struct {
		name           string
		measured, true int64
	}{
		{"one-way delay, median (RFC 7679)", read.Delay.P50, truth.Delay.P50},
		{"one-way delay, 99th percentile", read.Delay.P99, truth.Delay.P99},
	}
	for _, d := range delays {
		fmt.Fprintf(out, format, d.name, milliseconds(d.measured), milliseconds(d.true),
			fmt.Sprintf("%+.0f us", float64(d.measured-d.true)/1e3))
	}
	if read.Reordered != truth.Reordered {
		fmt.Fprintf(out, "\nThe packets of one TCP burst carry one number: what changed places inside a\n"+
			"burst is not seen. Packets that leave one by one are counted exactly.\n")
	}
	fmt.Fprintf(out, "\nAccounts: source saw %d = marked %d + left alone %d packets;\n"+
		"          sent %d = arrived once %d + lost %d. The measured delay also holds the\n"+
		"          router and the kernels at both ends, which the link does not know.\n",
		source.Seen, source.Marked, source.Seen-source.Marked,
		source.Marked, read.Expected-read.Lost, read.Lost)
	return nil
}

func difference(n int64) string {
	if n == 0 {
		return "exact"
	}
	return fmt.Sprintf("%+d", n)
}

func milliseconds(ns int64) string { return fmt.Sprintf("%.3f ms", float64(ns)/1e6) }

func end(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
