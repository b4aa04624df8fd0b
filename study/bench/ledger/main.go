// Command ledger proves that a fleet stores rows exactly once: it starts the fleet of
// lab/fleet.yaml, lets simulated agents send numbered rows, kills replicas of ClickHouse, its
// coordination service, NATS hubs and pillion-servers at random (SIGKILL), starts them again,
// and compares what the agents sent with what the archive has.
//
// It requires root, and what `.ci/install test` installs. What it does not prove: a killed
// process leaves its writes to the kernel (no power failure), no disk fails, and the network
// between the hosts works.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"pillion.dev/study/bench/result"
)

// settings of a run.
type settings struct {
	seconds, senders, rows int
	every                  time.Duration
	seed                   uint64
	kinds                  []string
	keep                   bool
	bin, out               string
}

func main() {
	if os.Getenv(senderVariable) != "" {
		if err := runSenders(context.Background(), os.Getenv(senderVariable)); err != nil {
			fmt.Fprintln(os.Stderr, "ledger: send rows:", err)
			os.Exit(1)
		}
		return
	}
	var s settings
	kinds := ""
	flag.IntVar(&s.seconds, "seconds", 600, "how long programs are killed")
	flag.Uint64Var(&s.seed, "seed", 0, "what the faults are drawn from; default a new one, which is printed")
	flag.IntVar(&s.senders, "senders", 12, "simulated agents")
	flag.IntVar(&s.rows, "rows", 20, "rows of an agent in each batch")
	flag.DurationVar(&s.every, "every", 100*time.Millisecond, "time between two batches of an agent")
	flag.StringVar(&kinds, "kinds", "clickhouse,coordination,hub,server", "programs to be killed, separated by commas")
	flag.BoolVar(&s.keep, "keep", false, "leave the lab up")
	flag.StringVar(&s.bin, "bin", "bin", "folder of the programs")
	flag.StringVar(&s.out, "out", "", "write the result as JSON to this file")
	flag.Parse()
	s.kinds = strings.Split(kinds, ",")
	if s.seed == 0 {
		s.seed = rand.Uint64N(1e9) + 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := run(ctx, &s)
	if err != nil {
		fmt.Fprintf(os.Stderr, "ledger: %v\nledger: FAILED with seed %d; repeat it with -seed %d\n", err, s.seed, s.seed)
		stop()
		os.Exit(1)
	}
	if err := r.Print(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		os.Exit(1)
	}
}

// run starts the fleet, lets faults happen and balances the ledger.
func run(ctx context.Context, s *settings) (r result.Result, err error) {
	fmt.Fprintf(os.Stderr, "ledger: seed %d, %d s, %d agents with %d rows every %v; kills of %s\n",
		s.seed, s.seconds, s.senders, s.rows, s.every, strings.Join(s.kinds, ", "))
	w, err := newWorld(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.startSenders(ctx); err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := w.kill(ctx, time.Duration(s.seconds)*time.Second); err != nil {
		return nil, err
	}
	final, err := w.finish(ctx)
	if err != nil {
		return nil, err
	}
	b, err := w.balance(ctx, final)
	if err != nil {
		return nil, err
	}
	r = result.Result{
		"seed": s.seed, "seconds": time.Since(begun).Seconds(), "kills": w.kills, "starts": w.starts, "rows_sent": b.sent, "rows_stored": b.stored,
		"rows_lost": b.lost, "rows_twice": b.twice, "longest_wait_ms": final.LongestWait.Milliseconds(),
	}
	if s.out != "" {
		if err := writeResult(s.out, r); err != nil {
			return nil, err
		}
	}
	if b.lost+b.twice > 0 {
		_ = r.Print(os.Stderr)
		return nil, fmt.Errorf("%d rows are lost, %d are stored twice: %s", b.lost, b.twice, strings.Join(b.faults, "; "))
	}
	return r, nil
}

func writeResult(path string, r result.Result) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return errors.Join(r.Print(file), file.Close())
}
