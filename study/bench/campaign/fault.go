package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/progress"
)

// fault is one kind of injected fault. It affects one host until happen returns; its consequences may
// last longer.
type fault struct {
	name string
	// server and agents say which hosts it can affect.
	server, agents bool
	// alone says that no other fault may be active at the same time.
	alone  bool
	happen func(ctx context.Context, w *world, h *host, draws *rand.Rand) (what string, err error)
}

// Limits of random durations: of a fault, between two faults, of a clock step, and of a wrong clock.
const (
	lastingMin, lastingMax = 500 * time.Millisecond, 6 * time.Second
	gapMin, gapMax         = 200 * time.Millisecond, 3 * time.Second
	stepMax                = 20 * time.Second
	wrongMax               = 90 * time.Second
)

func faults() []fault {
	all := []fault{
		{name: "kill program", server: true, agents: true, happen: killProgram},
		{name: "kill application", server: true, agents: true, happen: killApplication},
		{name: "partition", agents: true, happen: partition},
		{name: "partition of all", server: true, happen: partitionAll},
		{name: "restored backup", server: true, alone: true, happen: restore},
	}
	for _, name := range []string{"no space", "io errors", "fsync fails"} {
		all = append(all, fault{name: name, server: true, agents: true, happen: func(ctx context.Context, _ *world, h *host, draws *rand.Rand) (string, error) {
			return breakDisk(ctx, h, diskFaults[name], draws)
		}})
	}
	if canStep {
		all = append(all,
			fault{name: "clock step", server: true, agents: true, happen: stepClock},
			fault{name: "clock set", server: true, agents: true, happen: setClock})
	}
	return all
}

func between(draws *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(draws.Int64N(int64(most-least)))
}

// last waits for a random time, and returns it.
func last(ctx context.Context, draws *rand.Rand) time.Duration {
	return lastUntil(ctx, between(draws, lastingMin, lastingMax))
}

func lastUntil(ctx context.Context, d time.Duration) time.Duration {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return d.Round(time.Millisecond)
}

func killProgram(_ context.Context, _ *world, h *host, draws *rand.Rand) (string, error) {
	if !h.program.kill(draws) {
		return "it is not running", nil
	}
	return "killed", nil
}

func killApplication(_ context.Context, _ *world, h *host, draws *rand.Rand) (string, error) {
	if !h.application.kill(draws) {
		return "it is not running", nil
	}
	return "killed", nil
}

// partition takes down one end of the host's link, at random: the host sees its own interface fail, or
// its packets are lost at the other end.
func partition(ctx context.Context, w *world, h *host, draws *rand.Rand) (string, error) {
	namespace, link := w.server.namespace, h.link
	if draws.IntN(2) == 0 {
		namespace, link = h.namespace, "net0"
	}
	if err := netns.IP(namespace, "link set "+link+" down"); err != nil {
		return "", err
	}
	d := last(ctx, draws)
	return fmt.Sprintf("for %v", d), netns.IP(namespace, "link set "+link+" up")
}

func (w *world) links(state string) error {
	var lines []string
	for _, h := range w.agents {
		lines = append(lines, "link set "+h.link+" "+state)
	}
	return netns.IP(w.server.namespace, lines...)
}

func partitionAll(ctx context.Context, w *world, _ *host, draws *rand.Rand) (string, error) {
	if err := w.links("down"); err != nil {
		return "", err
	}
	d := last(ctx, draws)
	return fmt.Sprintf("for %v", d), w.links("up")
}

func breakDisk(ctx context.Context, h *host, f diskFault, draws *rand.Rand) (string, error) {
	h.disk.fail(&f)
	d := last(ctx, draws)
	return fmt.Sprintf("for %v, %d operations failed", d, h.disk.fail(nil)), nil
}

func stepClock(ctx context.Context, _ *world, h *host, draws *rand.Rand) (string, error) {
	ahead := between(draws, -stepMax, stepMax).Round(time.Second)
	return whileAhead(ctx, h, ahead, between(draws, lastingMin, lastingMax), func() error { return h.program.step(0) })
}

const day = 24 * time.Hour

// wrongClocks are offsets of a clock that somebody sets wrong, or that resets with an empty battery.
var wrongClocks = []time.Duration{time.Hour, 40 * day, 365 * day, -time.Hour, -40 * day}

// setClock sets the clock wrong, often for long enough that the server's tasks of each minute run.
// In half of the cases it then kills the program, which restarts with the right clock.
func setClock(ctx context.Context, _ *world, h *host, draws *rand.Rand) (string, error) {
	ahead, d := wrongClocks[draws.IntN(len(wrongClocks))], between(draws, lastingMin, wrongMax)
	back, how := func() error { return h.program.step(0) }, ""
	if draws.IntN(2) == 0 {
		back = func() error {
			how = ", then killed"
			h.program.kill(draws)
			return h.program.step(0) // the clock of its other processes
		}
	}
	what, err := whileAhead(ctx, h, ahead, d, back)
	return what + how, err
}

// whileAhead advances the clock of a host's program by ahead, and calls back after d to set it right.
func whileAhead(ctx context.Context, h *host, ahead, d time.Duration, back func() error) (string, error) {
	if err := h.program.step(ahead); errors.Is(err, errNotStopped) || hasEnded(err) {
		return fmt.Sprintf("not possible: %v", err), nil // the program may be ending
	} else if err != nil {
		return "", err
	}
	begun := time.Now()
	lastUntil(ctx, d)
	if err := back(); err != nil && !hasEnded(err) {
		return "", err
	}
	return fmt.Sprintf("by %v for %v", ahead, time.Since(begun).Round(time.Millisecond)), nil
}

// hasEnded reports whether an error means that the process is ending or has ended: its memory cannot be accessed.
func hasEnded(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, io.ErrUnexpectedEOF)
}

// tally counts faults and prints them as they happen.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
	begun  time.Time
	bar    *progress.Bar
}

// follow shows the elapsed time and the number of faults until the context ends.
func (t *tally) follow(ctx context.Context, seconds int) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		faults := 0
		t.mu.Lock()
		for _, n := range t.counts {
			faults += n
		}
		t.bar.Set(int64(time.Since(t.begun).Seconds()), int64(seconds), fmt.Sprintf("%d faults", faults))
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// say prints a line with the time since the start, s.
func (t *tally) say(format string, values ...any) {
	t.bar.Print(os.Stdout, fmt.Sprintf("%7.1f s  %s", time.Since(t.begun).Seconds(), fmt.Sprintf(format, values...)))
}

func (t *tally) add(name, host, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[name]++
	t.say("%-18s %-10s %s", name, host, what)
}

// lanes is how many faults may be active at once, on different hosts.
const lanes = 2

// run injects faults until the context ends. The same seed gives the same faults; the exact times at which
// they affect the programs depend on the machine.
func (w *world) run(ctx context.Context, t *tally) error {
	var exclusive sync.RWMutex
	taken := map[*host]*sync.Mutex{}
	for _, h := range w.hosts() {
		taken[h] = &sync.Mutex{}
	}
	failed := make(chan error, lanes)
	var running sync.WaitGroup
	for _, draws := range w.draws {
		running.Go(func() {
			for ctx.Err() == nil {
				if err := w.next(ctx, t, draws, &exclusive, taken); err != nil {
					failed <- err
					return
				}
				select {
				case <-ctx.Done():
				case <-time.After(between(draws, gapMin, gapMax)):
				}
			}
		})
	}
	running.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (w *world) next(ctx context.Context, t *tally, draws *rand.Rand, exclusive *sync.RWMutex, taken map[*host]*sync.Mutex) error {
	all := faults()
	f := all[draws.IntN(len(all))]
	var hosts []*host
	if f.server {
		hosts = append(hosts, w.server)
	}
	if f.agents {
		hosts = append(hosts, w.agents...)
	}
	h := hosts[draws.IntN(len(hosts))]
	if f.alone {
		exclusive.Lock()
		defer exclusive.Unlock()
	} else {
		exclusive.RLock()
		defer exclusive.RUnlock()
	}
	taken[h].Lock()
	defer taken[h].Unlock()
	if ctx.Err() != nil {
		return nil
	}
	what, err := f.happen(ctx, w, h, draws)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", f.name, h.name, err)
	}
	t.add(f.name, h.name, what)
	return nil
}
