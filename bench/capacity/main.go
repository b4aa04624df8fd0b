// Command capacity measures how well the capacity of a path is estimated, and how pre-dispatch
// changes what pairs and trains can measure (seed 5, E7 and E9): hosts at both ends of a
// dumbbell with two routers, whose middle link has a known rate, idle and beside a competing
// flow. Blocks hold every cell once, in random order. It needs root and iperf3.
//
// The links are emulated, and all hosts share one machine: routers forward when the processor
// that sends has time, receive times are those of the scheduler, and a rate is that of frames without preamble and frame check sequence.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"pillion.dev/bench/estimate"
	"pillion.dev/bench/machine"
)

type settings struct {
	Blocks int    `json:"blocks"`
	Pairs  int    `json:"pairs_per_block"`
	Trains int    `json:"trains_per_block"`
	Seed   uint64 `json:"seed"`

	out, agent string
}

type report struct {
	Experiment string          `json:"experiment"`
	Date       time.Time       `json:"date"`
	Seconds    float64         `json:"seconds"`
	Commit     string          `json:"commit"`
	Machine    machine.Machine `json:"machine"`
	Settings   settings        `json:"settings"`
	// Capacities are those of emulated links; Pairs and Trains what an observer at the far end saw.
	Capacities []*capacityCell  `json:"capacities"`
	Pairs      []*pairCell      `json:"pairs"`
	Trains     []*trainCell     `json:"trains"`
	Bars       []estimate.Bar   `json:"bars"`
	Claims     []estimate.Claim `json:"claims"`
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "capacity:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var s settings
	flag.IntVar(&s.Blocks, "blocks", 20, "blocks; fewer than 6 decide nothing")
	flag.IntVar(&s.Pairs, "pairs", 50, "pairs of a cell in a block")
	flag.IntVar(&s.Trains, "trains", 10, "trains of 50 packets of a cell in a block")
	flag.Uint64Var(&s.Seed, "seed", 1, "seed of the order of cells")
	flag.StringVar(&s.out, "out", "bench/results", "folder of the results; - writes none")
	flag.StringVar(&s.agent, "agent", "bin/pillion-agent", "program that emulates links")
	flag.Parse()
	if os.Geteuid() != 0 {
		return errors.New("make network namespaces: not root; run it with sudo")
	}
	path, err := filepath.Abs(s.agent)
	if err != nil {
		return err
	}
	s.agent = path
	r := report{Experiment: "capacity", Date: time.Now().UTC(), Commit: machine.Commit(), Machine: machine.Describe(), Settings: s}
	if err := r.measure(ctx); err != nil {
		return err
	}
	r.close()
	r.Seconds, r.Machine.LoadEnd = time.Since(r.Date).Seconds(), machine.Load()
	r.print()
	if s.out == "-" {
		return nil
	}
	text, err := json.MarshalIndent(&r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.out, "capacity.json"), append(text, '\n'), 0o644)
}

// measure runs all blocks.
func (r *report) measure(ctx context.Context) (err error) {
	beds := map[int]*bed{}
	defer func() {
		for _, b := range beds {
			err = errors.Join(err, b.Close())
		}
	}()
	for _, mbit := range append([]int{fast}, rates...) {
		b, err := newBed(ctx, r.Settings.agent, mbit)
		if err != nil {
			return err
		}
		beds[mbit] = b
	}
	var tasks []func(block int) error
	for _, mbit := range rates {
		for _, load := range loads {
			c := &capacityCell{Name: fmt.Sprintf("%d Mbit/s, %s", mbit, load), Mbit: mbit, Load: load}
			r.Capacities = append(r.Capacities, c)
			tasks = append(tasks, func(block int) error { return c.run(ctx, beds[mbit], r.Settings, block) })
		}
	}
	for _, a := range arms {
		for _, load := range loads {
			p := &pairCell{Name: fmt.Sprintf("pairs, %s, %s", load, a.name), Arm: a.name, Load: load}
			r.Pairs = append(r.Pairs, p)
			tasks = append(tasks, func(int) error { return p.run(ctx, beds[fast], a.options, r.Settings) })
		}
		for _, mbit := range asked {
			t := &trainCell{Name: fmt.Sprintf("trains at %d Mbit/s, %s", mbit, a.name), Arm: a.name, Mbit: mbit}
			r.Trains = append(r.Trains, t)
			tasks = append(tasks, func(int) error { return t.run(ctx, beds[fast], a.options, r.Settings) })
		}
	}
	for block := range r.Settings.Blocks {
		fmt.Fprintf(os.Stderr, "block %d of %d\n", block+1, r.Settings.Blocks)
		for _, i := range rand.New(rand.NewPCG(r.Settings.Seed, uint64(block))).Perm(len(tasks)) {
			if err := tasks[i](block); err != nil {
				return fmt.Errorf("block %d: %w", block+1, err)
			}
		}
	}
	return nil
}

func (r *report) close() {
	for _, c := range r.Capacities {
		c.close()
	}
	for _, p := range r.Pairs {
		p.close()
	}
	for _, t := range r.Trains {
		t.close()
	}
	r.Bars, r.Claims = r.bars(), r.claims()
}

func (r *report) print() {
	fmt.Printf("%-28s %24s %10s %8s %8s %8s\n", "capacity", "error, %", "width, %", "valid", "holds", "runs")
	for _, c := range r.Capacities {
		fmt.Printf("%-28s %24s %10.2f %8d %8d %8d\n", c.Name, scaled(c.Error, 100), c.Width.Median*100, c.Valid, c.Holding, c.Runs)
	}
	for _, p := range r.Pairs {
		fmt.Printf("%-36s gap p50 %s us, p90 %s us: %s Gbit/s\n", p.Name, p.Gap50, p.Gap90, p.Measurable)
	}
	for _, t := range r.Trains {
		fmt.Printf("%-36s rate error %s %%, at the sender %s %%\n", t.Name, scaled(t.Error, 100), scaled(t.SentError, 100))
	}
	for _, b := range r.Bars {
		fmt.Printf("%-9s %-70s %s, target %s %g\n", b.Verdict, b.Name, b.Estimate, b.Sense, b.Target)
	}
	for _, c := range r.Claims {
		fmt.Printf("%s %-9s %s: %s (%s)\n", c.Experiment, c.Verdict, c.Claim, c.Estimate, c.Text)
	}
}

// scaled is an estimate in another unit.
func scaled(e estimate.Estimate, by float64) estimate.Estimate {
	e.Median, e.Low, e.High = e.Median*by, e.Low*by, e.High*by
	return e
}
