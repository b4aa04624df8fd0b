package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"pillion.dev/measure"
	"pillion.dev/session"
	"pillion.dev/study/bench/fleet"
)

const (
	// settleTime is how long a step runs before it is measured (as long as it is measured, if that is less), since no
	// more than the rows of drainedWithin wait, which takes settleMost at most: the first rows of lanes and streams
	// take longer than those that follow.
	settleTime    = 5 * time.Second
	drainedWithin = 2 * time.Second
	settleMost    = time.Minute
	// A step is carried if this share of its rows is acknowledged while it is measured, and nearly all in this time.
	carriedShare = 0.95
	carriedWait  = 5 * time.Second
)

// steps are sizes of a fleet that are measured one after the other.
type steps struct {
	text, processes string
	sizes           []int
	length          time.Duration
	measured        map[string]int // ids of processes by name
}

func (s *steps) complete() error {
	for text := range strings.SplitSeq(s.text, ",") {
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 2 || len(s.sizes) > 0 && n <= s.sizes[len(s.sizes)-1] {
			return fmt.Errorf("steps %q: want ascending numbers of agents from 2 on", s.text)
		}
		s.sizes = append(s.sizes, n)
	}
	s.measured = map[string]int{}
	for text := range strings.SplitSeq(s.processes, ",") {
		if text == "" {
			continue
		}
		name, id, _ := strings.Cut(text, "=")
		n, err := strconv.Atoi(id)
		if err != nil {
			return fmt.Errorf("processes %q: want NAME=PID, separated by commas", s.processes)
		}
		s.measured[name] = n
	}
	return nil
}

// acknowledged are the times of acknowledgements while they are counted.
type acknowledged struct {
	mu    sync.Mutex
	on    bool
	rows  int64
	waits []time.Duration
}

func (a *acknowledged) add(rows int, after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on {
		a.rows += int64(rows)
		a.waits = append(a.waits, after)
	}
}

// begin counts from now on, end returns what was counted.
func (a *acknowledged) begin() { a.mu.Lock(); a.on, a.rows, a.waits = true, 0, nil; a.mu.Unlock() }

func (a *acknowledged) end() (rows int64, waits []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.on = false
	slices.Sort(a.waits)
	return a.rows, a.waits
}

// measureSteps lets the fleet grow and prints the figures of each size until a size is not carried, and then the
// figures of the last size that was.
func (c *crowd) measureSteps(ctx context.Context, token, folder string) error {
	working, stop := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop()
	acks := &acknowledged{}
	servers := strings.Split(c.settings.server, ",")
	var carried *figures
	lines := json.NewEncoder(os.Stdout)
	for _, size := range c.settings.steps.sizes {
		begun, before := time.Now(), len(c.hosts)
		if err := c.populate(size); err != nil {
			return err
		}
		added := c.hosts[before:]
		for _, h := range added {
			h.sending.Acknowledged, h.neighbour = acks.add, c.hosts[(h.number+1)%len(c.hosts)]
		}
		err := c.joinHosts(ctx, added, func(n int) fleet.Joining {
			return fleet.Joining{Server: servers[n%len(servers)], Token: token, Folder: folder}
		})
		if err != nil {
			return fmt.Errorf("let %d agents join: %w", size, err)
		}
		for n, h := range added {
			share := float64(n) / float64(len(added))
			parts.Go(func() { h.step(working, share) })
			parts.Go(func() { h.sending.Run(working, h.bus) })
		}
		f, err := c.measureStep(ctx, acks, float64(len(added))/time.Since(begun).Seconds())
		if err != nil {
			return err
		}
		if err := lines.Encode(f); err != nil {
			return err
		}
		if !f.Carried {
			break
		}
		carried = &f
	}
	if carried == nil {
		return errors.New("no step was carried")
	}
	return lines.Encode(carried)
}

func (c *crowd) measureStep(ctx context.Context, acks *acknowledged, joins float64) (figures, error) {
	f := figures{Agents: len(c.hosts), Joins: joins, Offered: float64(len(c.hosts)) / c.settings.interval.Seconds()}
	if err := c.settle(ctx, f.Offered); err != nil {
		return f, err
	}
	dropped := c.dropped()
	before, err := c.used()
	if err != nil {
		return f, err
	}
	begun := time.Now()
	acks.begin()
	if err := pause(ctx, c.settings.steps.length); err != nil {
		return f, err
	}
	rows, waits := acks.end()
	seconds := time.Since(begun).Seconds()
	after, err := c.used()
	if err != nil {
		return f, err
	}
	f.Process = spent(before, after, seconds, rows)
	f.Rate, f.Lost = float64(rows)/seconds, c.dropped()-dropped
	f.Waiting = c.waiting()
	if n := len(waits); n > 0 {
		f.P50, f.P99 = waits[n/2].Seconds()*1000, waits[n*99/100].Seconds()*1000
	}
	if f.Listed, f.Listing, err = c.listAgents(ctx); err != nil {
		return f, err
	}
	f.Carried = f.Lost == 0 && f.Rate >= carriedShare*f.Offered && f.P99 < carriedWait.Seconds()*1000
	return f, nil
}

// settle waits until rows are stored about as fast as they are sent, or settleMost.
func (c *crowd) settle(ctx context.Context, offered float64) error {
	for end := time.Now().Add(settleMost); time.Now().Before(end); {
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
		if float64(c.waiting()) <= offered*drainedWithin.Seconds() {
			break
		}
	}
	return pause(ctx, min(settleTime, c.settings.steps.length))
}

func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}

// step reports each second, and sends one row in each interval, of traffic from the next host, until the context
// ends. The times at which hosts do so are spread out, each by its share.
func (h *host) step(ctx context.Context, share float64) {
	interval := h.crowd.settings.interval
	task := session.DestinationTask{Session: "crowd", Interval: session.Duration(interval), Granularity: session.ByHost}
	reportPhase, rowPhase := phaseOf(share, time.Second), phaseOf(share, interval)
	row := time.Now().Add(-rowPhase).Truncate(interval).Add(interval)
	for {
		second := time.Now().Add(-reportPhase).Truncate(time.Second).Add(time.Second)
		if pause(ctx, time.Until(second.Add(reportPhase))) != nil {
			return
		}
		err := h.report()
		if err == nil && !time.Now().Before(row.Add(rowPhase)) {
			source := h.neighbour
			way := h.crowd.world.between(&source.place, &h.place)
			flow := merge(trafficOf(source.name, h.name), task.Granularity)[0]
			err = h.sending.Put(&measure.Flows, h.row(&task, source, flow, way, row))
			row = row.Add(interval)
		}
		if err != nil && h.bus.Connected() {
			log.Printf("%s: %v", h.name, err)
		}
	}
}

func phaseOf(share float64, interval time.Duration) time.Duration {
	return time.Duration(share * float64(interval))
}
