// Command router repeats seed 3's experiments on this kernel: a router between a sender
// and a receiver, all in network namespaces, constant and random payloads, and what the
// paper concluded from them, confirmed or refuted. It also measures what the profile
// itself costs, and whether its account of a million packets closes. It needs root.
//
// Its results (bench/results) are figures of one machine without wires: times are those
// of the kernel's code alone.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"pillion.dev/bench/estimate"
	"pillion.dev/bench/machine"
)

type settings struct {
	Packets int `json:"packets_per_test"`
	Repeats int `json:"tests_per_cell"`
	Pairs   int `json:"pairs_of_rates"`
	Account int `json:"packets_per_account"`

	only string
	out  string
}

// report is the whole results file.
type report struct {
	Experiment string          `json:"experiment"`
	Date       time.Time       `json:"date"`
	Seconds    float64         `json:"seconds"`
	Commit     string          `json:"commit"`
	Machine    machine.Machine `json:"machine"`
	Processors processors      `json:"processors"`
	Settings   settings        `json:"settings"`
	Findings   []finding       `json:"findings,omitempty"`
	Costs      *costs          `json:"costs,omitempty"`
	Accounts   []account       `json:"accounts,omitempty"`
	Cells      []*cell         `json:"cells,omitempty"`
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx)
	cancel()
	if err != nil {
		fmt.Fprintf(os.Stderr, "router: %v\n", err)
		os.Exit(1)
	}
}

func parse() (s settings) {
	flag.IntVar(&s.Packets, "packets", 150_000, "packets of a test")
	flag.IntVar(&s.Repeats, "repeats", 5, "tests of each kind; the paper made 100")
	flag.IntVar(&s.Pairs, "pairs", 7, "pairs of rates without and with the profile")
	flag.IntVar(&s.Account, "account", 1_000_000, "packets of each account")
	flag.StringVar(&s.only, "only", "", "cells, costs or accounts alone")
	flag.StringVar(&s.out, "out", "bench/results/router.json", "where the figures go")
	flag.Parse()
	return s
}

func measure(ctx context.Context) error {
	s := parse()
	if os.Geteuid() != 0 {
		return errors.New("make network namespaces: not root; run it with sudo")
	}
	begin := time.Now()
	r := report{
		Experiment: "router", Date: begin, Commit: machine.Commit(), Machine: machine.Describe(), Processors: spread(),
		Settings: s,
	}
	for _, part := range []struct {
		name string
		run  func() error
	}{
		{"cells", func() (err error) { r.Cells, err = measureCells(ctx, s); r.Findings = findings(r.Cells); return err }},
		{"costs", func() error { c, err := measureCosts(ctx, s); r.Costs = &c; return err }},
		{"accounts", func() (err error) { r.Accounts, err = measureAccounts(ctx, s); return err }},
	} {
		if s.only != "" && s.only != part.name {
			continue
		}
		if err := part.run(); err != nil {
			return fmt.Errorf("measure %s: %w", part.name, err)
		}
	}
	r.Seconds, r.Machine.LoadEnd = round(time.Since(begin).Seconds()), machine.Load()
	r.tell()
	return r.write(s.out)
}

// String is the cell's line.
func (c *cell) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s %8.0f packets/s", c.Name, c.Rate)
	for _, name := range stageNames[:3] {
		var medians, high []float64
		for _, t := range c.Tests {
			medians, high = append(medians, t.Stages[name].MedianUs), append(high, t.Stages[name].P99Us)
		}
		fmt.Fprintf(&b, "  %s %.2f us (p99 %.1f)", name, estimate.Median(medians), estimate.Median(high))
	}
	lost := 0
	for _, t := range c.Tests {
		lost += t.Sent - t.Received
	}
	fmt.Fprintf(&b, "  %d packets lost", lost)
	return b.String()
}

// tell prints the report for people.
func (r *report) tell() {
	for _, f := range r.Findings {
		verdict := "refuted"
		if f.Confirmed {
			verdict = "confirmed"
		}
		fmt.Printf("%s: %s\n", verdict, f.Claim)
	}
	if c := r.Costs; c != nil {
		for _, t := range c.Targets {
			fmt.Printf("%s: %s: %v, target %g\n", t.Verdict, t.What, t.Figure, t.Target)
		}
		fmt.Printf("each hook once %v ns a packet; rate %v of native with causes, %v on the router's own processor, %v with empty programs\n",
			c.NsOnce, c.WithCauses.Ratio, c.RouterProcessor.Ratio, c.Empty.Ratio)
	}
	for _, a := range r.Accounts {
		fmt.Printf("%s: %d seen, %d forwarded, %d dropped, %d merged, %d lost, %d unexplained; closed: %t\n",
			a.Traffic, a.Seen, a.Forwarded, a.Dropped, a.Merged, a.Lost, a.Unexplained, a.Closed)
	}
}

func (r *report) write(path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make results folder: %w", err)
	}
	if err := os.WriteFile(path+".tmp", append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
