package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
)

// Limits of what is drawn.
const (
	downMin, downMax = 500 * time.Millisecond, 8 * time.Second
	gapMin, gapMax   = 500 * time.Millisecond, 4 * time.Second
	finishTime       = 3 * time.Minute
)

func between(draws *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(draws.Int64N(int64(most-least)))
}

// kill kills programs, one or two at a time, until the time is over, and leaves all running.
func (w *world) kill(ctx context.Context, length time.Duration) error {
	targets := w.programs(w.settings.kinds...)
	if len(targets) == 0 {
		return fmt.Errorf("kill programs: none is a %s", strings.Join(w.settings.kinds, " or "))
	}
	for end := time.Now().Add(length); time.Now().Before(end) && ctx.Err() == nil; {
		picked := []string{targets[w.draws.IntN(len(targets))]}
		if other := targets[w.draws.IntN(len(targets))]; w.draws.IntN(3) == 0 && other != picked[0] {
			picked = append(picked, other)
		}
		for _, name := range picked {
			if err := w.lab.KillService(name); err != nil {
				return err
			}
			w.kills[kind(name)]++
		}
		down := between(w.draws, downMin, downMax)
		fmt.Fprintf(os.Stderr, "ledger: %4.0f s left: %s killed for %v\n", time.Until(end).Seconds(), strings.Join(picked, " and "), down.Round(time.Millisecond))
		if err := w.tend(ctx, down, picked...); err != nil {
			return err
		}
		if err := w.tend(ctx, between(w.draws, gapMin, gapMax)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// tendEvery is the pause after which a service manager starts a program again.
const tendEvery = 500 * time.Millisecond

// tend waits, and starts programs again that are not running, as a service manager does, but
// for those that are to stay away. A replica of ClickHouse ends by itself if it starts before
// its coordination service.
func (w *world) tend(ctx context.Context, length time.Duration, away ...string) error {
	for end := time.Now().Add(length); ctx.Err() == nil; {
		for _, name := range w.programs() {
			if slices.Contains(away, name) || w.lab.ServiceRuns(name) {
				continue
			}
			if err := w.lab.StartService(context.WithoutCancel(ctx), name); err != nil {
				return err
			}
			w.starts[kind(name)]++
		}
		rest := time.Until(end)
		if rest <= 0 {
			break
		}
		pause(ctx, min(tendEvery, rest))
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// kind of a program: what is before its host.
func kind(name string) string {
	kind, _, _ := strings.Cut(name, "-")
	return kind
}

// programs are the programs of the fleet of these kinds; without kinds, all.
func (w *world) programs(kinds ...string) (names []string) {
	for host := range w.lab.Spec.Hosts {
		on, err := w.lab.ServicesOn(host)
		if err != nil {
			continue // none
		}
		for _, name := range on {
			if len(kinds) == 0 || slices.Contains(kinds, kind(name)) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// finish lets the agents deliver the rest.
func (w *world) finish(ctx context.Context) (report, error) {
	if err := w.input.Close(); err != nil {
		return report{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tended := make(chan error, 1)
	go func() { tended <- w.tend(ctx, finishTime) }()
	err := w.until(ctx, finishTime, "all rows are acknowledged", func(r report) bool { return r.Final })
	cancel()
	err = errors.Join(err, <-tended)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, err
}
