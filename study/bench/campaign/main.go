// Command campaign lets faults happen to a real pillion-server and real agents, in
// namespaces and on disks of its own, and keeps a ledger of every row that applications
// report: at checkpoints and at the end, each row that was acknowledged is in the archive
// exactly once.
//
// The faults are drawn from a seed: kill -9 of any program, partitions, full and broken
// disks, failing fsync, clock steps, lost answers to renewals, and the restore of a backup. It
// requires root and FUSE. What it does not prove: no packets are measured, a process that is killed
// leaves its writes to the kernel (no power failure), and its disks neither reorder nor tear
// writes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"pillion.dev/internal/progress"
)

type settings struct {
	seconds, agents int
	seed            uint64
	bin             string
	checkpoint      time.Duration
	keep            bool
}

func main() {
	var s settings
	flag.IntVar(&s.seconds, "seconds", 1800, "how long faults happen")
	flag.Uint64Var(&s.seed, "seed", 0, "what the faults are drawn from; default a new one, which is printed")
	flag.IntVar(&s.agents, "agents", 3, "agents, each with an application")
	flag.StringVar(&s.bin, "bin", "bin", "folder of the programs")
	flag.DurationVar(&s.checkpoint, "checkpoint", 3*time.Minute, "how often rows are checked meanwhile")
	flag.BoolVar(&s.keep, "keep", false, "keep the folder with disks and logs also on success")
	flag.Parse()
	if sender := os.Getenv(senderVariable); sender != "" {
		if err := runApplication(sender, os.Getenv(addressVariable)); err != nil {
			fmt.Fprintln(os.Stderr, "application:", err)
			os.Exit(1)
		}
		return
	}
	if s.seed == 0 {
		s.seed = rand.Uint64N(1e9) + 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := campaign(ctx, s); err != nil {
		fmt.Fprintf(os.Stderr, "campaign: %v\ncampaign: FAILED with seed %d; repeat it with SEED=%d\n", err, s.seed, s.seed)
		stop()
		os.Exit(1)
	}
}

// campaign runs from beginning to end, and leaves its folder if it fails.
func campaign(ctx context.Context, s settings) error {
	fmt.Printf("campaign: seed %d, %d s, %d agents\n", s.seed, s.seconds, s.agents)
	w, err := newWorld(s)
	if w == nil {
		return err
	}
	defer func() {
		keep := err != nil || s.keep
		w.close(keep)
		if keep {
			fmt.Fprintln(os.Stderr, "campaign: disks and logs are in", w.folder)
		}
	}()
	if err != nil {
		return err
	}
	if err = w.start(ctx); err != nil {
		return err
	}
	t := &tally{counts: map[string]int{}, begun: time.Now(), bar: progress.New(os.Stderr, "campaign", progress.Seconds)}
	following, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { t.follow(following, s.seconds) })
	err = w.faultsAndChecks(ctx, t)
	end()
	group.Wait()
	t.bar.End()
	if err != nil {
		return err
	}
	b, err := w.finish(ctx)
	t.print(w, b)
	if err == nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	return err
}

// faultsAndChecks lets faults happen, with a check after each period.
func (w *world) faultsAndChecks(ctx context.Context, t *tally) error {
	left := time.Duration(w.settings.seconds) * time.Second
	for left > 0 && ctx.Err() == nil {
		part := min(left, w.settings.checkpoint)
		left -= part
		phase, end := context.WithTimeout(ctx, part)
		err := w.run(phase, t)
		end()
		if err != nil {
			return err
		}
		b, err := w.settle(ctx)
		if err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		t.mu.Lock()
		t.say("checkpoint: %d rows acknowledged, %d archived, %d duplicates, %d lost", b.Acknowledged, b.Archived, b.Duplicates, b.Lost)
		t.mu.Unlock()
	}
	return ctx.Err()
}

// print prints the summary.
func (t *tally) print(w *world, b balance) {
	total := 0
	var lines []string
	for name, n := range t.counts {
		lines = append(lines, fmt.Sprintf("  %-18s %5d", name, n))
		total += n
	}
	lines = append(lines, fmt.Sprintf("  %-18s %5d", "lost answers", w.proxy.lost.Load()))
	slices.Sort(lines)
	fmt.Printf("campaign: %d faults\n", total+int(w.proxy.lost.Load()))
	for _, line := range lines {
		fmt.Println(line)
	}
	fmt.Printf("campaign: %d rows acknowledged, %d archived, %d duplicates, %d lost\n", b.Acknowledged, b.Archived, b.Duplicates, b.Lost)
}
