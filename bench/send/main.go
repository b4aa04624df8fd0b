// Command send measures how exactly packets leave (seed 5, E1 to E6, E8, E10 and E11): trains
// and pairs by pre-dispatch and by a plain socket, idle and beside loads, over a veth pair,
// as an observer that shares nothing with the sender sees them reach the driver. Blocks
// hold every cell once, in random order. It needs root.
//
// Figures are of one machine without wires. An absolute time proves little on a shared
// machine; the ratios of the same block prove more.
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
	"runtime"
	"strings"
	"syscall"
	"time"
)

type settings struct {
	Blocks  int    `json:"blocks"`
	Trains  int    `json:"trains_per_block"`
	Packets int    `json:"packets_per_train"`
	Pairs   int    `json:"pairs_per_block"`
	Flush   int    `json:"packets_of_the_longest_train"`
	Seed    uint64 `json:"seed"`

	out string
}

type report struct {
	Experiment string    `json:"experiment"`
	Date       time.Time `json:"date"`
	Seconds    float64   `json:"seconds"`
	Kernel     string    `json:"kernel"`
	Cores      int       `json:"cores"`
	LoadBegin  string    `json:"load_begin"`
	LoadEnd    string    `json:"load_end"`
	Settings   settings  `json:"settings"`
	Clock      *clock    `json:"clock"`
	Cells      []*cell   `json:"cells"`
	Bars       []bar     `json:"bars"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "load" { // a child of this program
		exit(imposeLoad(os.Args[2:]))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx)
	cancel()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "send:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func measure(ctx context.Context) (err error) {
	var s settings
	flag.IntVar(&s.Blocks, "blocks", 9, "blocks; fewer than 6 decide nothing")
	flag.IntVar(&s.Trains, "trains", 8, "trains of a cell in a block")
	flag.IntVar(&s.Packets, "packets", 50, "packets of a train")
	flag.IntVar(&s.Pairs, "pairs", 50, "pairs of a cell in a block")
	flag.IntVar(&s.Flush, "flush", 100_000, "identical packets sent as close to each other as possible")
	flag.Uint64Var(&s.Seed, "seed", 1, "seed of the order of cells")
	flag.StringVar(&s.out, "out", "bench/results", "folder of the results; - writes none")
	flag.Parse()
	if os.Geteuid() != 0 {
		return errors.New("make network namespaces: not root; run it with sudo")
	}
	r := report{Experiment: "send", Date: time.Now().UTC(), Kernel: kernel(), Cores: runtime.NumCPU(), LoadBegin: load(), Settings: s}
	if r.Clock, err = measureClock(); err != nil {
		return err
	}
	b, err := newBed()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	x := experiment{settings: s, bed: b, cells: cells()}
	if err := x.run(ctx); err != nil {
		return err
	}
	r.Cells = x.cells
	for _, c := range r.Cells {
		c.close()
	}
	r.Bars = bars(r.Cells)
	r.Seconds, r.LoadEnd = time.Since(r.Date).Seconds(), load()
	print(&r)
	if s.out == "-" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.out, "send.json"), append(text, '\n'), 0o644)
}

func kernel() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease") // empty if there is none
	return strings.TrimSpace(string(text))
}

func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

func print(r *report) {
	r.Clock.print()
	fmt.Printf("%-44s %9s %9s %9s %8s %8s\n", "departure error, us, by an observer", "p50", "p99", "max", "<=10us", "<=100us")
	for _, c := range r.Cells {
		if len(c.errors) > 0 {
			fmt.Printf("%-44s %9.2f %9.2f %9.1f %7.1f%% %7.1f%%\n", c.Name, c.P50.Median, c.P99.Median, c.Max, c.Within10.Median*100, c.Within100.Median*100)
		}
	}
	for _, c := range r.Cells {
		if len(c.gaps) > 0 {
			fmt.Printf("%-44s distance p50 %.2f us, mean %.2f us", c.Name, c.Gap.Median, c.MeanGap.Median)
			if c.bitsPerSecond > 0 {
				fmt.Printf(", rate %+.4f %% of that asked for", c.RateError.Median*100)
			}
			fmt.Println()
		}
	}
	for _, c := range r.Cells {
		if c.Kind == train && c.Load == "idle" {
			fmt.Printf("%-44s returned time of handing over to the observer's: p50 %.2f us, p99 %.2f us\n", c.Name, c.Returned50.Median, c.Returned99.Median)
		}
	}
	for _, b := range r.Bars {
		fmt.Printf("%-9s %-84s %s, target %s %g\n", b.Verdict, b.Name, b.Estimate, b.Sense, b.Target)
	}
}
